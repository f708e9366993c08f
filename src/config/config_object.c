/* config_object.c - converts keys with any values to a JSON object. */
#include "config/config_row.h"

static bool is_number(pal_str text, pal_arena *scratch)
{
    pal_json value;
    return text.len > 0 && (text.data[0] == '-' || (text.data[0] >= '0' && text.data[0] <= '9')) &&
            pal_json_parse(scratch, text, NULL, &value, NULL) == PAL_OK;
}

static void put_scalar(
        pal_json_writer *writer, const pal_config_node *node, pal_arena *scratch)
{
    bool is_true = pal_str_is(node->text, "true");
    if (pal_config_node_is_null(node))
        pal_json_put_null(writer);
    else if (node->is_plain && (is_true || pal_str_is(node->text, "false")))
        pal_json_put_bool(writer, is_true);
    else if (node->is_plain && is_number(node->text, scratch))
        pal_json_put_raw(writer, node->text);
    else
        pal_json_put_str(writer, node->text);
}

/* The depth is limited by PAL_CONFIG_DEPTH_MAX, like the depth of a file. */
static void put_node(pal_json_writer *writer, const pal_config_node *node, pal_arena *scratch)
{
    if (node->kind == PAL_CONFIG_NODE_SCALAR) {
        put_scalar(writer, node, scratch);
        return;
    }
    bool is_map = node->kind == PAL_CONFIG_NODE_MAP;
    if (is_map)
        pal_json_begin_object(writer);
    else
        pal_json_begin_array(writer);
    for (const pal_config_node *child = node->first; child; child = child->next) {
        if (is_map)
            pal_json_name_str(writer, child->key);
        put_node(writer, child, scratch);
    }
    if (is_map)
        pal_json_end_object(writer);
    else
        pal_json_end_array(writer);
}

bool pal_config_object_read(const pal_config_row *row, const pal_config_node *node,
        pal_arena *arena, pal_str *out_object)
{
    pal_buf buf;
    if (node->kind != PAL_CONFIG_NODE_MAP)
        return false;
    pal_buf_init(&buf, row->max);
    pal_json_writer writer = pal_json_writer_make(&buf);
    put_node(&writer, node, arena);
    bool is_right = buf.failure == PAL_OK;
    /* An object without members counts as empty. */
    if (is_right && node->first)
        *out_object = pal_arena_copy(arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return is_right && pal_arena_failure(arena) == PAL_OK;
}
