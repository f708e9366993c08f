/* api_mistral_models.c - lists the available models in Mistral's format. */
#include "base/json/json_put.h"
#include "server/api/api_object.h"
#include "server/api/mistral/api_mistral.h"
#include "server/server_call.h"

/* Every model is listed with these capabilities. If a model lacks one, its service reports an
 * error. */
static void put_capabilities(pal_json_writer *writer)
{
    pal_json_name(writer, "capabilities");
    pal_json_begin_object(writer);
    pal_put_flag(writer, "completion_chat", true);
    pal_put_flag(writer, "completion_fim", false);
    pal_put_flag(writer, "function_calling", true);
    pal_put_flag(writer, "fine_tuning", false);
    pal_put_flag(writer, "vision", true);
    pal_json_end_object(writer);
}

static void put_model(pal_call *call, const pal_served_model *model)
{
    pal_json_writer *writer = pal_call_writer(call);
    pal_model known = pal_models_find(call->server->models, model->model);
    pal_json_begin_object(writer);
    pal_put_str(writer, "id", model->model);
    pal_put_text(writer, "object", "model");
    pal_put_count(writer, "created", (uint64_t)(call->server->started_at / 1000));
    pal_put_str(writer, "owned_by", model->endpoint);
    put_capabilities(writer);
    if (known.context)
        pal_put_count(writer, "max_context_length", known.context);
    pal_json_name(writer, "aliases");
    pal_json_begin_array(writer);
    pal_json_end_array(writer);
    pal_put_text(writer, "type", "base");
    pal_json_end_object(writer);
}

static pal_status list_models(pal_call *call, pal_error *err)
{
    return pal_openai_send_models(call, put_model, err);
}

static pal_status get_model(pal_call *call, pal_error *err)
{
    return pal_openai_send_model(call, put_model, "/mistral/v1/models", err);
}

const pal_api_route pal_mistral_model_routes[] = {
        {"GET", "/mistral/v1/models", PAL_KEY_READ, PAL_API_WORKER, list_models,
                {"mistralListModels", "list the available models", NULL, NULL, &pal_api_any_object,
                        200}},
        {"GET", "/mistral/v1/models/{id}", PAL_KEY_READ, PAL_API_WORKER, get_model,
                {"mistralGetModel", "read one model", NULL, NULL, &pal_api_any_object, 200}},
        {0},
};
