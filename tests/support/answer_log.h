/* answer_log.h - a sink that records the reported events as one text, with pieces of the same kind
 * joined, so that a complete answer is easy to compare:
 *
 *   think(hm) sign(sig,anthropic) text(Hello) call0(c1,ls) args0({}) end(ok stop 12+0+0>3/1 m)
 *
 * Ids that Palaver created are shown as '*'. */
#ifndef PAL_TESTS_ANSWER_LOG_H
#define PAL_TESTS_ANSWER_LOG_H

#include <stdio.h>
#include "base/buf.h"
#include "provider/provider_reader.h"

typedef struct answer_log {
    pal_buf text;
    char open[32]; /* the kind of the last piece */
    bool ended;
    pal_model_end end; /* without its views, which are not valid any more */
} answer_log;

static void log_close(answer_log *log)
{
    if (log->open[0])
        pal_buf_append_text(&log->text, ") ");
    log->open[0] = '\0';
}

static void log_piece(answer_log *log, const char *name, pal_str piece)
{
    if (strcmp(log->open, name) != 0) {
        log_close(log);
        snprintf(log->open, sizeof log->open, "%s", name);
        pal_buf_append_text(&log->text, name);
        pal_buf_append_char(&log->text, '(');
    }
    pal_buf_append_str(&log->text, piece);
}

static void log_text(void *user, pal_str delta)
{
    log_piece(user, "text", delta);
}

static void log_reasoning(void *user, pal_str delta)
{
    log_piece(user, "think", delta);
}

static void log_signature(void *user, pal_str signature, pal_str family)
{
    answer_log *log = user;
    log_close(log);
    pal_buf_format(&log->text, "sign(%.*s,%.*s) ", PAL_STR_ARG(signature), PAL_STR_ARG(family));
}

static void log_call(void *user, uint32_t index, pal_str id, pal_str name)
{
    answer_log *log = user;
    bool is_made = id.len == 29 && memcmp(id.data, "call_", 5) == 0;
    log_close(log);
    pal_buf_format(&log->text, "call%u(%.*s,%.*s) ", index,
            PAL_STR_ARG(is_made ? pal_str_of("*") : id), PAL_STR_ARG(name));
}

static void log_arguments(void *user, uint32_t index, pal_str delta)
{
    char name[32];
    snprintf(name, sizeof name, "args%u", index);
    log_piece(user, name, delta);
}

static void log_refusal(void *user, pal_str delta)
{
    log_piece(user, "refusal", delta);
}

static void log_summary(void *user, pal_str delta)
{
    log_piece(user, "summary", delta);
}

static void log_item(void *user, pal_str json, size_t parts)
{
    answer_log *log = user;
    log_close(log);
    pal_buf_format(&log->text, "item%zu(%.*s) ", parts, PAL_STR_ARG(json));
}

/* Logs only the type of the event. */
static void log_progress(void *user, pal_str json)
{
    static const char name[] = "\"type\":\"";
    answer_log *log = user;
    const char *type = memmem(json.data, json.len, name, sizeof name - 1);
    log_close(log);
    type = type ? type + sizeof name - 1 : "\"";
    pal_buf_format(&log->text, "progress(%.*s) ", (int)strcspn(type, "\""), type);
}

static void log_end(void *user, const pal_model_end *end)
{
    static const char *const finishes[] = {"none", "stop", "length", "tool_calls", "filtered"};
    answer_log *log = user;
    pal_buf *out = &log->text;
    log_close(log);
    pal_buf_format(out, "end(%s", pal_status_name(end->status));
    if (end->status == PAL_OK)
        pal_buf_format(out, " %s", finishes[end->finish]);
    if (end->has_usage)
        pal_buf_format(out, " %u+%u+%u>%u/%u", (unsigned)end->usage.input,
                (unsigned)end->usage.cache_read, (unsigned)end->usage.cache_write,
                (unsigned)end->usage.output, (unsigned)end->usage.reasoning);
    if (end->model.len)
        pal_buf_format(out, " model=%.*s", PAL_STR_ARG(end->model));
    if (end->request_id.len)
        pal_buf_format(out, " id=%.*s", PAL_STR_ARG(end->request_id));
    if (end->conversation.len)
        pal_buf_format(out, " conversation=%.*s", PAL_STR_ARG(end->conversation));
    if (end->code != 200 && end->code != 0)
        pal_buf_format(out, " HTTP=%ld", end->code);
    if (end->error_code.len)
        pal_buf_format(out, " code=%.*s", PAL_STR_ARG(end->error_code));
    if (end->is_overflow)
        pal_buf_append_text(out, " overflow");
    if (end->is_retryable)
        pal_buf_append_text(out, " retryable");
    if (end->retry_after_ms >= 0)
        pal_buf_format(out, " after=%d", (int)end->retry_after_ms);
    if (end->is_stale)
        pal_buf_append_text(out, " stale");
    if (end->error.len)
        pal_buf_format(out, ": %.*s", PAL_STR_ARG(end->error));
    pal_buf_append_char(out, ')');
    log->ended = true;
    log->end = *end;
}

static const pal_model_sink log_sink = {log_text, log_reasoning, log_signature, log_call,
        log_arguments, log_end, log_refusal, log_summary, log_item, log_progress};

static inline void log_init(answer_log *log)
{
    *log = (answer_log){0};
    pal_buf_init(&log->text, 256u << 20);
}

static inline void log_done(answer_log *log)
{
    pal_buf_done(&log->text);
}

#endif
