/* native_question.c - the native JSON format of questions. A stored question has no name and no
 * arguments, because those are in the call that it is about. docs/api.md describes the format. */
#include "base/json/json_put.h"
#include "dialect/dialect_member.h"
#include "dialect/native/native.h"

#define LEN(list) (sizeof(list) / sizeof((list)[0]))

static const char *const kind_names[] = {"none", "approval", "repeat", "input"};

const char *pal_question_kind_name(pal_question_kind kind)
{
    return (size_t)kind < LEN(kind_names) ? kind_names[kind] : "none";
}

static pal_status read_kind(
        const pal_member *member, pal_json value, pal_arena *arena, void *record, pal_error *err)
{
    pal_question *question = record;
    (void)member;
    (void)arena;
    (void)err;
    question->kind = PAL_QUESTION_NONE;
    for (size_t i = 1; i < LEN(kind_names); i++) {
        if (pal_json_string_is(value, kind_names[i]))
            question->kind = (pal_question_kind)i;
    }
    return PAL_OK;
}

static void write_kind(const pal_member *member, pal_json_writer *writer, const void *record)
{
    const pal_question *question = record;
    pal_put_text(writer, member->name, pal_question_kind_name(question->kind));
}

#define BOTH (PAL_NATIVE_SHOWN | PAL_NATIVE_STORED)
#define AT(field) offsetof(pal_question, field)

static const pal_member question_members[] = {
        {"kind", PAL_MEMBER_OTHER, BOTH, AT(kind)},
        {"call_id", PAL_MEMBER_STRING, BOTH, AT(call_id)},
        {"name", PAL_MEMBER_STRING, PAL_NATIVE_SHOWN, AT(name)},
        {"server", PAL_MEMBER_STRING, BOTH, AT(server)},
        {"arguments", PAL_MEMBER_STRING, PAL_NATIVE_SHOWN, AT(arguments)},
        {"text", PAL_MEMBER_STRING, BOTH, AT(text)},
        {"data", PAL_MEMBER_OBJECT, BOTH, AT(data)},
};
static const pal_member_table question_table = {
        question_members, LEN(question_members), read_kind, write_kind};

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
