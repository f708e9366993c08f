/* postgres_value.h - parameters and results of statements, in PostgreSQL's binary format. Arrays
 * are built column by column, so that one statement writes the rows of a whole batch with
 * unnest(). */
#ifndef PAL_POSTGRES_VALUE_H
#define PAL_POSTGRES_VALUE_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "palaver/arena.h"
#include "palaver/id.h"
#include "palaver/str.h"

/* Object ids of types, which are the same in every PostgreSQL. */
typedef enum pal_postgres_type {
    PAL_POSTGRES_BOOL = 16,
    PAL_POSTGRES_BYTES = 17,
    PAL_POSTGRES_INT8 = 20,
    PAL_POSTGRES_TEXT = 25,
    PAL_POSTGRES_UUID = 2950,
} pal_postgres_type;

#define PAL_POSTGRES_PARAMS_MAX 24
#define PAL_POSTGRES_PARAM_BYTES_MAX (1u << 30) /* PostgreSQL's limit of a value */

typedef struct pal_postgres_param {
    pal_buf bytes;
    pal_postgres_type type; /* arrays: the type of the elements */
    uint32_t elements;      /* arrays: their number */
    bool is_array;
    bool is_null;
} pal_postgres_param;

/* The parameters of one statement. Zeroed: none. A failure of memory is kept in the bytes and found
 * when the statement is sent. */
typedef struct pal_postgres_params {
    pal_postgres_param items[PAL_POSTGRES_PARAMS_MAX];
    size_t len;
} pal_postgres_params;

void pal_postgres_params_done(pal_postgres_params *params);
/* Returns the object id of the parameter's type; 0: the statement says what the bytes are. */
Oid pal_postgres_param_type(const pal_postgres_param *param);

/* Add one value. */
void pal_postgres_put_int(pal_postgres_params *params, int64_t number);
void pal_postgres_put_text(pal_postgres_params *params, pal_str text); /* empty: NULL */
/* The bytes are never NULL. The statement decides whether they are a text, a uuid or bytes. */
void pal_postgres_put_bytes(pal_postgres_params *params, pal_str bytes);
void pal_postgres_put_id(pal_postgres_params *params, pal_id id); /* none: NULL */

/* Adds an empty array for each letter: i int8, u uuid, t text, y bytes, b bool. */
void pal_postgres_put_arrays(pal_postgres_params *params, const char *types);
/* Adds an empty array, and elements to it. */
pal_postgres_param *pal_postgres_put_array(pal_postgres_params *params, pal_postgres_type type);
void pal_postgres_add_int(pal_postgres_param *array, int64_t number);
void pal_postgres_add_int_or_null(pal_postgres_param *array, int64_t number); /* 0: NULL */
void pal_postgres_add_bool(pal_postgres_param *array, bool value);
void pal_postgres_add_text(pal_postgres_param *array, pal_str text);  /* empty: NULL */
void pal_postgres_add_bytes(pal_postgres_param *array, pal_str bytes);
void pal_postgres_add_id(pal_postgres_param *array, pal_id id); /* none: NULL */

/* Returns the number of a row's column, which can be any integer type or a bool; 0 for NULL. */
int64_t pal_postgres_int(const PGresult *result, int row, int column);
/* Return the bytes of a column, which are valid as long as the result; empty for NULL. */
pal_str pal_postgres_str(const PGresult *result, int row, int column);
pal_str pal_postgres_str_copy(const PGresult *result, int row, int column, pal_arena *arena);
pal_id pal_postgres_id(const PGresult *result, int row, int column);

#endif
