/* window_count.c - measures the loaded messages: tokens by the model's count, sizes of blobs,
 * and the difference between our counts and those that the provider reports. Reads only. */
#include "window/window_internal.h"

static void flag_pins(const pal_active_marks *active, pal_message *messages, size_t len)
{
    size_t pin = 0;

    for (size_t i = 0; i < len; i++) {
        while (pin < active->pins_len && active->pins[pin] < messages[i].seq)
            pin++;
        if (pin < active->pins_len && active->pins[pin] == messages[i].seq)
            messages[i].flags |= PAL_MESSAGE_FLAG_PINNED;
    }
}

/* The stored counts use the store's encoding. If the model has another vocabulary, the messages are
 * counted again. */
static pal_status recount(
        const pal_encoding *encoding, pal_message *messages, size_t len, pal_error *err)
{
    pal_status status = PAL_OK;

    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        uint64_t tokens = 0;

        status = pal_tokens_message(encoding, &messages[i], &tokens, err);
        messages[i].tokens = tokens > UINT32_MAX ? UINT32_MAX : (uint32_t)tokens;
    }
    return status;
}

static pal_status recount_all(pal_store *store, pal_window_view *view, pal_error *err)
{
    const pal_encoding *encoding = view->model.encoding;
    pal_context_input *input = &view->input;
    pal_status status = PAL_OK;

    if (!encoding || !view->model.is_exact || encoding == pal_store_encoding(store))
        return PAL_OK;
    view->is_recounted = true;
    input->checkpoint.tokens = 0;
    status = recount(encoding, (pal_message *)input->messages, input->messages_len, err);
    if (status == PAL_OK)
        status = recount(encoding, (pal_message *)input->kept, input->kept_len, err);
    if (status == PAL_OK && input->head)
        status = recount(encoding, (pal_message *)input->head, 1, err);
    return status;
}

/* A missing blob is treated as if it never existed: the repair replaces it by a text that says
 * so. */
static pal_status fill_bytes(
        pal_store *store, const pal_window *window, pal_part *parts, size_t len, pal_error *err)
{
    pal_status status = PAL_OK;

    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        pal_part *part = &parts[i];
        bool is_media = part->kind == PAL_PART_IMAGE || part->kind == PAL_PART_FILE;

        if (is_media && part->blob.len > 0 && part->data.len == 0)
            status = pal_store_blob_size(store, window->tenant, part->blob, &part->bytes, err);
        if (status == PAL_NOT_FOUND) {
            part->blob = (pal_str){0};
            status = PAL_OK;
        }
        if (status == PAL_OK && part->parts_len > 0)
            status = fill_bytes(store, window, part->parts, part->parts_len, err);
    }
    return status;
}

static pal_status fill_list(pal_store *store, const pal_window *window, const pal_message *messages,
        size_t len, pal_error *err)
{
    pal_status status = PAL_OK;

    for (size_t i = 0; status == PAL_OK && i < len; i++)
        status = fill_bytes(store, window, messages[i].parts, messages[i].parts_len, err);
    return status;
}

/* The lists were made for this call, so they can be changed in place. */
pal_status pal_window_finish(
        pal_store *store, const pal_window *window, pal_window_view *view, pal_error *err)
{
    const pal_context_input *input = &view->input;
    pal_status status = recount_all(store, view, err);

    if (status == PAL_OK)
        status = fill_list(store, window, input->messages, input->messages_len, err);
    if (status == PAL_OK)
        status = fill_list(store, window, input->kept, input->kept_len, err);
    if (status != PAL_OK)
        return status;
    flag_pins(&view->active, (pal_message *)input->messages, input->messages_len);
    flag_pins(&view->active, (pal_message *)input->kept, input->kept_len);
    return PAL_OK;
}

static uint64_t reported_input(const pal_message *message)
{
    return message->usage.input + message->usage.cache_read + message->usage.cache_write;
}

static bool is_same_counting(const pal_window *window, pal_str name, const pal_model *model)
{
    if (name.len == 0 || model->name.len == 0 || pal_str_equal(name, model->name))
        return true;
    return pal_models_find(window->models, name).encoding == model->encoding;
}

/* A report of more tokens than the model accepts is a mistake. */
static bool is_plausible(const pal_context_input *input, const pal_message *message)
{
    return !input->limits.context || reported_input(message) <= input->limits.context;
}

/* Services report the exact version of a model, so most messages have the same other name. It is
 * looked up once. */
void pal_window_calibrate(const pal_window *window, pal_window_view *view)
{
    pal_context_input *input = &view->input;
    pal_str name = view->model.name;
    bool is_same = true;

    for (size_t i = 0; i < input->messages_len; i++) {
        const pal_message *message = &input->messages[i];

        if (message->role != PAL_ROLE_ASSISTANT || !message->has_usage || !message->sent)
            continue;
        if (!pal_str_equal(message->model, name)) {
            name = message->model;
            is_same = is_same_counting(window, name, &view->model);
        }
        if (is_same && is_plausible(input, message))
            pal_calibration_learn(
                    &input->calibration, message->sent->tokens, reported_input(message));
    }
}
