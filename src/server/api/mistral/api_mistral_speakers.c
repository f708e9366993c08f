/* api_mistral_speakers.c - reads the settings of all speakers of a request: those of the
 * conversation or its agent, and those of all agents that it can be handed to. All of them are read
 * before the first turn starts, because later turns start on the runtime's loop. The loop must not
 * read from the store. */
#include <stdio.h>
#include "base/json/json_put.h"
#include "dialect/dialect_member.h"
#include "server/api/mistral/api_mistral.h"
#include "server/api/native/api_turn.h"
#include "server/server_call.h"

#define TOOL_NAME_LEN_MAX 64 /* limit of the model services */

/* ---- completion_args ---- */

typedef enum arg_type { ARG_FLAG, ARG_NUMBER, ARG_TEXTS, ARG_OBJECT, ARG_STRING } arg_type;

static const struct {
    const char *name;
    const char *sent_as;
    arg_type type;
} args_known[] = {
        {"temperature", "temperature", ARG_NUMBER},
        {"top_p", "top_p", ARG_NUMBER},
        {"stop", "stop", ARG_TEXTS},
        {"random_seed", "seed", ARG_NUMBER},
        {"presence_penalty", "presence_penalty", ARG_NUMBER},
        {"frequency_penalty", "frequency_penalty", ARG_NUMBER},
        {"response_format", "response_format", ARG_OBJECT},
        {"prediction", "prediction", ARG_OBJECT},
        {"reasoning_effort", "reasoning_effort", ARG_STRING},
        {"parallel_tool_calls", "parallel_tool_calls", ARG_FLAG},
};

static bool has_type(pal_json value, arg_type type)
{
    pal_json_type is = pal_json_type_of(value);
    switch (type) {
    case ARG_FLAG:
        return is == PAL_JSON_TRUE || is == PAL_JSON_FALSE;
    case ARG_NUMBER:
        return is == PAL_JSON_NUMBER;
    case ARG_TEXTS:
        return is == PAL_JSON_STRING || is == PAL_JSON_ARRAY;
    case ARG_OBJECT:
        return is == PAL_JSON_OBJECT;
    default:
        return is == PAL_JSON_STRING;
    }
}

/* `within` is the object that contains the member; NULL means the request itself. */
static pal_status wrong_arg(
        pal_call *call, const char *within, const char *name, const char *expected, pal_error *err)
{
    return pal_mistral_wrong(call, within ? within : name, err, "'%s%s%s' must be %s",
            within ? within : "", within ? "." : "", name, expected);
}

static pal_status check_choice(pal_call *call, pal_json value, const char *within, pal_error *err)
{
    static const char *const words[] = {"auto", "none", "any", "required", NULL};
    if (pal_json_is_absent(value) || pal_json_type_of(value) == PAL_JSON_OBJECT ||
            pal_member_is_one_of(value, words))
        return PAL_OK;
    return wrong_arg(call, within, "tool_choice", "auto, none, any, required or an object", err);
}

pal_status pal_mistral_args_check(pal_call *call, pal_json args, const char *within, pal_error *err)
{
    static const char *const texts[] = {[ARG_FLAG] = "true or false",
            [ARG_NUMBER] = "a number",
            [ARG_TEXTS] = "a string or an array of strings",
            [ARG_OBJECT] = "an object",
            [ARG_STRING] = "a string"};
    uint64_t tokens;
    if (pal_json_is_absent(args))
        return PAL_OK;
    if (pal_json_type_of(args) != PAL_JSON_OBJECT)
        return pal_mistral_wrong(call, within, err, "'%s' must be an object", within);
    for (size_t i = 0; i < sizeof args_known / sizeof *args_known; i++) {
        pal_json value = pal_json_find(args, args_known[i].name);
        if (!pal_json_is_absent(value) && !has_type(value, args_known[i].type))
            return wrong_arg(call, within, args_known[i].name, texts[args_known[i].type], err);
    }
    pal_status status = pal_call_count(call, args, "max_tokens", 1, UINT32_MAX, &tokens, err);
    return status == PAL_OK ? check_choice(call, pal_json_find(args, "tool_choice"), within, err)
                            : status;
}

/* Returns the member of the first of the three objects that has it. */
static pal_json choose(const pal_json *levels, const char *name)
{
    for (size_t i = 0; i < 3; i++) {
        pal_json value = pal_json_find(levels[i], name);
        if (!pal_json_is_absent(value))
            return value;
    }
    return (pal_json){0};
}

static pal_status apply_args(
        pal_call *call, const pal_json *levels, pal_turn_request *request, pal_error *err)
{
    pal_buf buf;
    pal_json choice = choose(levels, "tool_choice");
    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    for (size_t i = 0; i < sizeof args_known / sizeof *args_known; i++) {
        pal_json value = choose(levels, args_known[i].name);
        if (pal_json_is_absent(value))
            continue;
        pal_put_raw(&writer, args_known[i].sent_as, pal_json_raw(value));
    }
    pal_json_end_object(&writer);
    pal_status status = pal_member_keep(&buf, call->arena, &request->parameters, err);
    pal_buf_done(&buf);
    (void)pal_json_u64(choose(levels, "max_tokens"), &request->output_max);
    if (pal_json_string_is(choice, "any"))
        request->tool_choice = pal_str_of("\"required\"");
    else if (!pal_json_is_absent(choice))
        request->tool_choice = pal_json_raw(choice);
    return status;
}

/* ---- One speaker ---- */

static pal_turn_request new_request(const pal_call *call)
{
    return (pal_turn_request){.tenant = call->caller.tenant,
            .budget = call->caller.budget,
            .lane = PAL_TURN_LANE_QUEUE,
            .all_or_nothing = true,
            .no_retries = true,
            .calls_end_turn = true};
}

/* Makes a function name that model services accept, such as "transfer_to_weather_agent". */
static pal_str transfer_name(pal_call *call, pal_str agent_name, size_t number)
{
    char name[TOOL_NAME_LEN_MAX + 1];
    size_t len = (size_t)snprintf(name, sizeof name, "transfer_to_");
    for (size_t i = 0; i < agent_name.len && len < TOOL_NAME_LEN_MAX - 4; i++) {
        unsigned char c = (unsigned char)agent_name.data[i];
        bool is_fit = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                c == '-' || c == '_';
        name[len++] = is_fit ? (char)c : '_';
    }
    if (number)
        len += (size_t)snprintf(name + len, sizeof name - len, "_%zu", number);
    return pal_arena_copy(call->arena, pal_str_make(name, len));
}

static bool has_tool(const pal_tool *tools, size_t len, pal_str name)
{
    for (size_t i = 0; i < len; i++) {
        if (pal_str_equal(tools[i].name, name))
            return true;
    }
    return false;
}

static pal_str describe(pal_call *call, const pal_mistral_agent *agent)
{
    pal_buf buf;
    pal_str text = {0}, description = pal_member_string(agent->fields, "description", call->arena);
    pal_buf_init(&buf, PAL_SYSTEM_LEN_MAX);
    pal_buf_append_text(&buf, "Hand the conversation over to the agent '");
    pal_buf_append_str(&buf, pal_member_string(agent->fields, "name", call->arena));
    pal_buf_append_text(&buf, description.len ? "': " : "'.");
    pal_buf_append_str(&buf, description);
    if (buf.failure == PAL_OK)
        text = pal_arena_copy(call->arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return text;
}

/* ---- All speakers ---- */

typedef struct speakers_maker {
    pal_call *call;
    pal_mistral_speakers *speakers;
    pal_mistral_agent agents[PAL_MISTRAL_HANDOFFS_MAX + 1]; /* the agent of each speaker */
    pal_json args;                                          /* the args of the request */
    pal_error *err;
} speakers_maker;

static pal_status fill_speaker(speakers_maker *maker, size_t at,
const pal_mistral_settings *settings)
{
    pal_call *call = maker->call;
    pal_mistral_speaker *speaker = &maker->speakers->items[at];
    pal_json fields = maker->agents[at].fields, tools = pal_json_find(fields, "tools");
    const pal_json levels[] = {maker->args, settings ? settings->completion_args : (pal_json){0},
            pal_json_find(fields, "completion_args")};
    pal_tool *list = NULL;
    speaker->request = new_request(call);
    speaker->request.model = pal_member_string(fields, "model", call->arena);
    speaker->request.system = pal_member_string(fields, "instructions", call->arena);
    if (settings && settings->model.len)
        speaker->request.model = settings->model;
    if (settings && settings->instructions.len)
        speaker->request.system = settings->instructions;
    if (settings && !pal_json_is_absent(settings->tools))
        tools = settings->tools;
    speaker->request.has_system = speaker->request.system.len > 0;
    pal_status status = pal_api_tools_read(call, tools, &list, &speaker->request.tools_len,
    maker->err);
    speaker->request.tools = list;
    return status == PAL_OK ? apply_args(call, levels, &speaker->request, maker->err) : status;
}

/* Finds the speaker of the agent, or adds it. PAL_NOT_FOUND if the agent no longer exists. */
static pal_status find_speaker(speakers_maker *maker, pal_str agent_id, size_t *out_index)
{
    pal_mistral_speakers *speakers = maker->speakers;
    for (size_t i = 0; i < speakers->len; i++) {
        if (pal_str_equal(speakers->items[i].agent_id, agent_id)) {
            *out_index = i;
            return PAL_OK;
        }
    }
    if (speakers->len > PAL_MISTRAL_HANDOFFS_MAX)
        return PAL_NOT_FOUND;
    pal_mistral_agent *agent = &maker->agents[speakers->len];
    pal_status status =
            pal_mistral_agent_find(maker->call, agent_id, (pal_str){0}, agent, maker->err);
    if (status != PAL_OK)
        return status;
    pal_mistral_speaker *speaker = &speakers->items[speakers->len];
    speaker->agent_id = agent->id_text;
    speaker->agent_name = pal_member_string(agent->fields, "name", maker->call->arena);
    *out_index = speakers->len++;
    return fill_speaker(maker, *out_index, NULL);
}

static void add_transfer(speakers_maker *maker, pal_mistral_speaker *speaker, pal_tool *tools,
size_t target)
{
    pal_call *call = maker->call;
    const pal_mistral_agent *agent = &maker->agents[target];
    size_t len = speaker->request.tools_len;
    pal_str name = transfer_name(call, maker->speakers->items[target].agent_name, 0);
    if (has_tool(tools, len, name))
        name = transfer_name(call, maker->speakers->items[target].agent_name, len);
    tools[len] = (pal_tool){.name = name,
            .description = describe(call, agent),
            .schema = pal_str_of("{\"type\":\"object\",\"properties\":{}}")};
    speaker->request.tools_len++;
    speaker->targets[speaker->targets_len++] = (pal_mistral_target){.tool = name,
    .speaker = target};
}

/* Adds the handoff tools after the agent's other tools. Agents that no longer exist are left
 * out. */
static pal_status add_transfers(speakers_maker *maker, size_t at)
{
    pal_arena *arena = maker->call->arena;
    pal_json value, handoffs = pal_json_find(maker->agents[at].fields, "handoffs");
    size_t count = pal_json_count(handoffs);
    pal_mistral_speaker *speaker = &maker->speakers->items[at];
    if (count == 0)
        return PAL_OK;
    pal_tool *tools = pal_arena_array(arena, speaker->request.tools_len + count, sizeof *tools);
    speaker->targets = pal_arena_array(arena, count, sizeof *speaker->targets);
    if (!tools || !speaker->targets)
        return pal_arena_checked(arena, maker->err);
    if (speaker->request.tools_len)
        memcpy(tools, speaker->request.tools, speaker->request.tools_len * sizeof *tools);
    speaker->request.tools = tools;
    for (pal_json_iter iter = pal_json_each(handoffs); pal_json_next(&iter, NULL, &value);) {
        size_t target;
        pal_status status = find_speaker(maker, pal_json_string(value, arena), &target);
        if (status == PAL_OK)
            add_transfer(maker, speaker, tools, target);
        else if (status != PAL_NOT_FOUND)
            return status;
    }
    return pal_arena_checked(arena, maker->err);
}

static pal_status make_first(speakers_maker *maker, const pal_mistral_settings *settings)
{
    pal_mistral_speaker *speaker = &maker->speakers->items[0];
    bool is_handed = settings->speaker_id.len > 0;
    pal_str agent_id = is_handed ? settings->speaker_id : settings->agent_id;
    maker->speakers->len = 1;
    if (agent_id.len) {
        pal_status status = pal_mistral_agent_find(maker->call, agent_id,
                is_handed ? (pal_str){0} : settings->agent_version, &maker->agents[0], maker->err);
        if (status != PAL_OK)
            return status;
        speaker->agent_id = maker->agents[0].id_text;
        speaker->agent_name = pal_member_string(maker->agents[0].fields, "name",
        maker->call->arena);
    }
    return fill_speaker(maker, 0, is_handed ? NULL : settings);
}

pal_status pal_mistral_speakers_make(pal_call *call, const pal_mistral_settings *settings,
        pal_json args, pal_mistral_speakers *out_speakers, pal_error *err)
{
    pal_mistral_speakers speakers = {0};
    speakers_maker *maker = pal_arena_alloc(call->arena, sizeof *maker);
    speakers.items = pal_arena_array(call->arena, PAL_MISTRAL_HANDOFFS_MAX + 1,
    sizeof *speakers.items);
    if (!maker || !speakers.items)
        return pal_arena_checked(call->arena, err);
    maker->call = call;
    maker->speakers = &speakers;
    maker->args = args;
    maker->err = err;
    pal_status status = make_first(maker, settings);
    for (size_t i = 0; status == PAL_OK && i < speakers.len; i++)
        status = add_transfers(maker, i);
    *out_speakers = speakers;
    return status;
}

/* ---- A copy ---- */

static pal_tool *copy_tools(const pal_tool *tools, size_t len, pal_arena *arena)
{
    pal_tool *copies = pal_arena_array(arena, len ? len : 1, sizeof *copies);
    for (size_t i = 0; copies && i < len; i++) {
        copies[i] = tools[i];
        copies[i].name = pal_arena_copy(arena, tools[i].name);
        copies[i].description = pal_arena_copy(arena, tools[i].description);
        copies[i].schema = pal_arena_copy(arena, tools[i].schema);
    }
    return copies;
}

static void copy_speaker(pal_mistral_speaker *speaker, pal_arena *arena)
{
    pal_turn_request *request = &speaker->request;
    pal_str *const texts[] = {&speaker->agent_id, &speaker->agent_name, &request->tenant,
    &request->model,
            &request->system, &request->tool_choice, &request->parameters};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        *texts[i] = pal_arena_copy(arena, *texts[i]);
    request->tools = copy_tools(request->tools, request->tools_len, arena);
    pal_mistral_target *targets =
            pal_arena_array(arena, speaker->targets_len ? speaker->targets_len : 1,
            sizeof *targets);
    for (size_t i = 0; targets && i < speaker->targets_len; i++) {
        targets[i].tool = pal_arena_copy(arena, speaker->targets[i].tool);
        targets[i].speaker = speaker->targets[i].speaker;
    }
    speaker->targets = targets;
}

pal_mistral_speakers pal_mistral_speakers_copy(const pal_mistral_speakers *speakers,
pal_arena *arena)
{
    pal_mistral_speakers copy = {
            .items = pal_arena_array(arena, speakers->len, sizeof *copy.items),
            .len = speakers->len};
    for (size_t i = 0; copy.items && i < speakers->len; i++) {
        copy.items[i] = speakers->items[i];
        copy_speaker(&copy.items[i], arena);
    }
    return copy;
}
