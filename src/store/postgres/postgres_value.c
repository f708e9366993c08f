/* postgres_value.c - see postgres_value.h. */
#include "store/postgres/postgres_value.h"

#include <assert.h>
#include <endian.h>

/* ---- Parameters ---- */

void pal_postgres_params_done(pal_postgres_params *params)
{
    for (size_t i = 0; i < params->len; i++)
        pal_buf_done(&params->items[i].bytes);
    params->len = 0;
}

Oid pal_postgres_param_type(const pal_postgres_param *param)
{
    static const Oid arrays[][2] = {{PAL_POSTGRES_BOOL, 1000}, {PAL_POSTGRES_BYTES, 1001},
            {PAL_POSTGRES_INT8, 1016}, {PAL_POSTGRES_TEXT, 1009}, {PAL_POSTGRES_UUID, 2951}};

    for (size_t i = 0; param->is_array && i < sizeof arrays / sizeof arrays[0]; i++)
        if (arrays[i][0] == (Oid)param->type)
            return arrays[i][1];
    return param->type == PAL_POSTGRES_BYTES ? 0 : (Oid)param->type;
}

static pal_postgres_param *next_param(pal_postgres_params *params, pal_postgres_type type)
{
    pal_postgres_param *param = &params->items[params->len++];

    assert(params->len <= PAL_POSTGRES_PARAMS_MAX);
    *param = (pal_postgres_param){.type = type};
    pal_buf_init(&param->bytes, PAL_POSTGRES_PARAM_BYTES_MAX);
    return param;
}

/* Numbers are in network byte order. */
static void append_number(pal_buf *buf, uint64_t number, size_t size)
{
    char bytes[8];

    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)(number >> (8 * (size - 1 - i)));
    pal_buf_append(buf, bytes, size);
}

void pal_postgres_put_int(pal_postgres_params *params, int64_t number)
{
    append_number(&next_param(params, PAL_POSTGRES_INT8)->bytes, (uint64_t)number, 8);
}

void pal_postgres_put_text(pal_postgres_params *params, pal_str text)
{
    pal_postgres_param *param = next_param(params, PAL_POSTGRES_TEXT);

    param->is_null = text.len == 0;
    pal_buf_append_str(&param->bytes, text);
}

void pal_postgres_put_bytes(pal_postgres_params *params, pal_str bytes)
{
    pal_buf_append_str(&next_param(params, PAL_POSTGRES_BYTES)->bytes, bytes);
}

void pal_postgres_put_id(pal_postgres_params *params, pal_id id)
{
    pal_postgres_param *param = next_param(params, PAL_POSTGRES_UUID);

    param->is_null = pal_id_is_none(id);
    pal_buf_append(&param->bytes, id.bytes, sizeof id.bytes);
}

/* ---- Arrays: a header, then the length and the bytes of each element ---- */

enum { HEADER_SIZE = 20, HEADER_NULLS_AT = 4, HEADER_LEN_AT = 12 };

pal_postgres_param *pal_postgres_put_array(pal_postgres_params *params, pal_postgres_type type)
{
    pal_postgres_param *param = next_param(params, type);

    param->is_array = true;
    append_number(&param->bytes, 1, 4);    /* dimensions */
    append_number(&param->bytes, 0, 4);    /* whether there are NULLs */
    append_number(&param->bytes, type, 4); /* the type of the elements */
    append_number(&param->bytes, 0, 4);    /* number of elements */
    append_number(&param->bytes, 1, 4);    /* index of the first element */
    return param;
}

void pal_postgres_put_arrays(pal_postgres_params *params, const char *types)
{
    for (; *types; types++)
        pal_postgres_put_array(params,
                *types == 'i'           ? PAL_POSTGRES_INT8
                        : *types == 'u' ? PAL_POSTGRES_UUID
                        : *types == 't' ? PAL_POSTGRES_TEXT
                        : *types == 'y' ? PAL_POSTGRES_BYTES
                                        : PAL_POSTGRES_BOOL);
}

static void add_element(pal_postgres_param *array, const void *bytes, size_t len)
{
    append_number(&array->bytes, len, 4);
    pal_buf_append(&array->bytes, bytes, len);
    array->elements++;
    if (!array->bytes.failure)
        for (size_t i = 0; i < 4; i++)
            array->bytes.data[HEADER_LEN_AT + i] = (char)(array->elements >> (8 * (3 - i)));
}

static void add_null(pal_postgres_param *array)
{
    add_element(array, NULL, 0);
    if (array->bytes.failure)
        return;
    memset(array->bytes.data + array->bytes.len - 4, 0xff, 4); /* the length -1 */
    array->bytes.data[HEADER_NULLS_AT + 3] = 1;
}

void pal_postgres_add_int(pal_postgres_param *array, int64_t number)
{
    char bytes[8];

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)((uint64_t)number >> (8 * (7 - i)));
    add_element(array, bytes, sizeof bytes);
}

void pal_postgres_add_int_or_null(pal_postgres_param *array, int64_t number)
{
    if (number == 0)
        add_null(array);
    else
        pal_postgres_add_int(array, number);
}

void pal_postgres_add_bool(pal_postgres_param *array, bool value)
{
    char byte = value;

    add_element(array, &byte, 1);
}

void pal_postgres_add_text(pal_postgres_param *array, pal_str text)
{
    if (text.len == 0)
        add_null(array);
    else
        add_element(array, text.data, text.len);
}

void pal_postgres_add_bytes(pal_postgres_param *array, pal_str bytes)
{
    add_element(array, bytes.data, bytes.len);
}

void pal_postgres_add_id(pal_postgres_param *array, pal_id id)
{
    if (pal_id_is_none(id))
        add_null(array);
    else
        add_element(array, id.bytes, sizeof id.bytes);
}

/* ---- Results ---- */

/* Numbers have 8, 4, 2 or 1 bytes. A NULL is 0. */
int64_t pal_postgres_int(const PGresult *result, int row, int column)
{
    const char *bytes = PQgetvalue(result, row, column);
    uint64_t number = 0;
    uint32_t half = 0;

    switch (PQgetlength(result, row, column)) {
    case 8:
        memcpy(&number, bytes, 8);
        return (int64_t)be64toh(number);
    case 4:
        memcpy(&half, bytes, 4);
        return (int32_t)be32toh(half);
    case 2:
        return (int16_t)((unsigned char)bytes[0] << 8 | (unsigned char)bytes[1]);
    case 1:
        return bytes[0];
    default:
        return 0;
    }
}

pal_str pal_postgres_str(const PGresult *result, int row, int column)
{
    return pal_str_make(
            PQgetvalue(result, row, column), (size_t)PQgetlength(result, row, column));
}

pal_str pal_postgres_str_copy(const PGresult *result, int row, int column, pal_arena *arena)
{
    return pal_arena_copy(arena, pal_postgres_str(result, row, column));
}

pal_id pal_postgres_id(const PGresult *result, int row, int column)
{
    pal_str bytes = pal_postgres_str(result, row, column);
    pal_id id = {{0}};

    if (bytes.len == sizeof id.bytes)
        memcpy(id.bytes, bytes.data, sizeof id.bytes);
    return id;
}
