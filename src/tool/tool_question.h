/* tool_question.h - a question that a tool server asks a person (MCP calls it elicitation), and the
 * reply to it. Pure.
 *
 * A server can ask for anything, so every question is shown with the name of its server. The page
 * of a question with a URL is never fetched. */
#ifndef PAL_TOOL_QUESTION_H
#define PAL_TOOL_QUESTION_H

#include "base/json/json.h"
#include "palaver/limits.h"

typedef struct pal_tool_question {
    pal_str id;      /* unique within its call */
    pal_str message; /* the text for the person */
    pal_str schema;  /* a form: the JSON Schema of the reply's content, which is a flat object */
    pal_str url;     /* not empty: not a form, but a page that the person should open */
} pal_tool_question;

/* Reads the params of elicitation/create, into the arena. `id` is not set. PAL_INVALID: it is not a
 * question. PAL_LIMIT: it is too long. */
PAL_CHECKED pal_status pal_tool_question_read(
        pal_json params, pal_arena *arena, pal_tool_question *out_question, pal_error *err);

/* Writes a reply in the form of the protocol, into the arena. `action` is "accept", "decline" or
 * "cancel". `content` is the JSON object for the form of an accepted question. Members that it
 * lacks get the defaults of the schema. PAL_INVALID: the action is unknown, or the content does not
 * match the schema. PAL_LIMIT: the content is too long. */
PAL_CHECKED pal_status pal_tool_question_reply(const pal_tool_question *question, pal_str action,
        pal_str content, pal_arena *arena, pal_str *out_reply, pal_error *err);

#define PAL_TOOL_REPLY_DECLINE "{\"action\":\"decline\"}"
#define PAL_TOOL_REPLY_CANCEL "{\"action\":\"cancel\"}"

#endif
