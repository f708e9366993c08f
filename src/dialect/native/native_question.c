/* native_question.c - the native JSON format of questions. A stored question has no name and no
 * arguments, because those are in the call that it is about. docs/api.md describes the format. */
#include "dialect/dialect_member.h"
#include "dialect/native/native.h"

#define LEN(list) (sizeof(list) / sizeof((list)[0]))

static const char *const kind_names[] = {"none", "approval", "repeat", "input"};

const char *pal_question_kind_name(pal_question_kind kind)
{
    return (size_t)kind < LEN(kind_names) ? kind_names[kind] : "none";
}

static const pal_member_names kinds = {
        kind_names, LEN(kind_names), "one of approval, repeat, input"};

#define BOTH (PAL_NATIVE_SHOWN | PAL_NATIVE_STORED)
#define AT(field) offsetof(pal_question, field)

static const pal_member question_members[] = {
        {"kind", PAL_MEMBER_NAME, BOTH, .offset = AT(kind), .of = &kinds},
        {"call_id", PAL_MEMBER_STRING, BOTH, .offset = AT(call_id)},
        {"name", PAL_MEMBER_STRING, PAL_NATIVE_SHOWN, .offset = AT(name)},
        {"server", PAL_MEMBER_STRING, BOTH, .offset = AT(server)},
        {"arguments", PAL_MEMBER_STRING, PAL_NATIVE_SHOWN, .offset = AT(arguments)},
        {"text", PAL_MEMBER_STRING, BOTH, .offset = AT(text)},
        {"data", PAL_MEMBER_OBJECT, BOTH, .offset = AT(data)},
};
static const pal_member_table question_table = {
        question_members, LEN(question_members), NULL, NULL};

void pal_native_question_put(
        pal_json_writer *writer, pal_native_form form, const pal_question *question)
{
    pal_json_begin_object(writer);
    pal_members_write(&question_table, form, writer, question);
    pal_json_end_object(writer);
}

pal_status pal_native_question_read(
        pal_json value, pal_arena *arena, pal_question *out_question, pal_error *err)
{
    return pal_members_read_stored(
            &question_table, PAL_NATIVE_STORED, value, arena, out_question, err);
}
