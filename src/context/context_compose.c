/* context_compose.c - makes the items of a plan from a draft and a choice.
 *
 * The repair is the last step, so the items are read back from its result. Messages with a seq are
 * those of the draft. Our own messages carry the number of their line in their id during the
 * repair. All other messages were created by the repair. Lines that do not come back are shown
 * where they would have been. */
#include "context/context_draft.h"

#include <inttypes.h>
#include "context/context_text.h"

#define NO_LINE SIZE_MAX

/* The state of a line. */
typedef struct line_state {
    bool is_given;    /* it was passed to the repair */
    bool is_returned; /* the repair returned it */
    bool is_dropped;  /* the repair dropped it; no other message contains a part of it */
    bool is_listed;   /* it is among the items */
    pal_str repairs;  /* the changes to it */
} line_state;

typedef struct composition {
    pal_draft *draft;
    const pal_choice *choice;
    pal_plan *plan;
    line_state *states;
    pal_repair_result repaired;
    size_t made_at; /* the next repair that describes a new message */
    size_t next;    /* the first line that is not yet among the items, if it was not sent */
    size_t hint;    /* the most likely position of the next message */
    size_t opening; /* the repaired message that was put before an answer; NO_LINE: none */
} composition;

/* ---- Messages that a plan adds ---- */

static const uint8_t line_mark[8] = {0xff, 'l', 'i', 'n', 'e', 0xff, 0xff, 0xff};

static pal_id line_id(uint64_t line)
{
    pal_id id;
    memcpy(id.bytes, line_mark, sizeof(line_mark));
    memcpy(id.bytes + sizeof(line_mark), &line, sizeof(line));
    return id;
}

static bool is_line_id(const pal_id *id, uint64_t *out_line)
{
    if (memcmp(id->bytes, line_mark, sizeof(line_mark)) != 0)
        return false;
    memcpy(out_line, id->bytes + sizeof(line_mark), sizeof(*out_line));
    return true;
}

/* ---- Before the repair ---- */

static uint64_t count_left_out(const pal_draft *draft, const pal_choice *choice)
{
    uint64_t count = draft->input->older_messages;
    if (draft->input->checkpoint.number)
        count += draft->input->checkpoint.dropped;
    for (size_t i = 0; i < choice->start; i++)
        count += !pal_draft_tail(draft, i)->must;
    return count;
}

static pal_status set_notice(composition *c, pal_error *err)
{
    pal_draft *draft = c->draft;
    pal_line *line = &draft->lines[draft->notice];
    uint64_t left_out = count_left_out(draft, c->choice);
    *line = (pal_line){0};
    if (left_out == 0)
        return PAL_OK;
    pal_message *notice = pal_arena_alloc(draft->arena, sizeof(*notice));
    if (!notice)
        return pal_draft_failure(draft, err);
    *notice = pal_message_text(draft->arena, PAL_ROLE_SYSTEM,
            pal_text_notice(draft->arena, left_out, c->choice->after_overflow));
    notice->flags = PAL_MESSAGE_FLAG_SYNTHETIC;
    *line = (pal_line){.kind = PAL_PLAN_ITEM_NOTICE,
            .count = 1,
            .message = notice,
            .disposition = PAL_DISPOSITION_SENT_SYNTHESIZED,
            .reason = PAL_TEXT("says what is left out")};
    pal_status status = pal_draft_failure(draft, err);
    if (status != PAL_OK)
        return status;
    pal_context_measure_message(notice, &line->size);
    return pal_context_count_message(draft->input, notice, &line->size.tokens, err);
}

static bool is_chosen(const composition *c, size_t index)
{
    const pal_draft *draft = c->draft;
    return index < draft->tail || index - draft->tail >= c->choice->start ||
            draft->lines[index].must;
}

/* The kept part of a history may begin with an answer. Some services reject that, so a shortened
 * request gets a user message before it. */
static pal_status put_opening(composition *c, pal_error *err)
{
    const pal_draft *draft = c->draft;
    pal_repair_result *repaired = &c->repaired;
    size_t first = 0;
    while (first < repaired->len && repaired->messages[first].role == PAL_ROLE_SYSTEM)
        first++;
    if (first == repaired->len || repaired->messages[first].role != PAL_ROLE_ASSISTANT ||
            !draft->lines[draft->notice].kind || !draft->is_open ||
            draft->input->profile == PAL_PROFILE_PICOCLAW)
        return PAL_OK;
    pal_message *messages = pal_arena_array(draft->arena, repaired->len + 1, sizeof(*messages));
    if (!messages)
        return pal_draft_failure(draft, err);
    for (size_t i = 0; i < repaired->len; i++)
        messages[i + (i >= first)] = repaired->messages[i];
    messages[first] =
            pal_message_text(draft->arena, PAL_ROLE_USER, PAL_TEXT(PAL_TEXT_CONTINUES));
    messages[first].flags = PAL_MESSAGE_FLAG_SYNTHETIC;
    repaired->messages = messages;
    repaired->len++;
    c->opening = first;
    return pal_draft_failure(draft, err);
}

static pal_status repair(composition *c, pal_error *err)
{
    pal_draft *draft = c->draft;
    pal_message *messages = pal_arena_array(draft->arena, draft->len, sizeof(*messages));
    size_t len = 0;
    if (!messages)
        return pal_draft_failure(draft, err);
    for (size_t i = 0; i < draft->len; i++) {
        const pal_line *line = &draft->lines[i];
        if (!line->message || !is_chosen(c, i))
            continue;
        c->states[i].is_given = true;
        messages[len] = *line->message;
        messages[len].tokens =
                line->size.tokens > UINT32_MAX ? UINT32_MAX : (uint32_t)line->size.tokens;
        if (line->seq == 0)
            messages[len].id = line_id(i);
        len++;
    }
    pal_status status =
            pal_context_repair(messages, len, draft->input, draft->arena, &c->repaired, err);
    c->opening = NO_LINE;
    return status == PAL_OK ? put_opening(c, err) : status;
}

/* ---- After the repair ---- */

/* The seqs of lines ascend within the kept messages and within the tail. */
static size_t search_seq(const pal_draft *draft, size_t low, size_t high, uint64_t seq)
{
    size_t end = high;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (draft->lines[middle].seq < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low < end && draft->lines[low].seq == seq ? low : NO_LINE;
}

static size_t find_seq(const composition *c, uint64_t seq)
{
    const pal_draft *draft = c->draft;
    if (c->hint < draft->len && draft->lines[c->hint].seq == seq && c->states[c->hint].is_given)
        return c->hint;
    size_t found = search_seq(draft, draft->tail, draft->len, seq);
    if (found == NO_LINE)
        found = search_seq(draft, draft->kept, draft->tail, seq);
    for (size_t i = 0; found == NO_LINE && i < draft->kept; i++) {
        if (draft->lines[i].message && draft->lines[i].seq == seq)
            found = i;
    }
    return found;
}

static size_t find_line(const composition *c, const pal_message *message)
{
    uint64_t line;
    if (message->seq)
        return find_seq(c, message->seq);
    return is_line_id(&message->id, &line) ? (size_t)line : NO_LINE;
}

static void note_repairs(composition *c)
{
    for (size_t i = 0; i < c->repaired.repairs_len; i++) {
        const pal_repair *done = &c->repaired.repairs[i];
        size_t line = done->seq ? find_seq(c, done->seq) : NO_LINE;
        if (line == NO_LINE)
            continue;
        pal_str *text = &c->states[line].repairs;
        c->states[line].is_dropped |= done->dropped;
        *text = text->len ? pal_text_format(c->draft->arena, "%.*s; %.*s", PAL_STR_ARG(*text),
                                    PAL_STR_ARG(done->text))
                          : done->text;
    }
}

/* Returns the text of the next repair that describes a new message. */
static pal_str next_made(composition *c)
{
    while (c->made_at < c->repaired.repairs_len) {
        const pal_repair *done = &c->repaired.repairs[c->made_at++];
        if (done->seq == 0)
            return done->text;
    }
    return PAL_TEXT("created to meet the provider's rules");
}

static pal_plan_item *add_item(composition *c)
{
    return &c->plan->items[c->plan->items_len++];
}

static pal_plan_item item_of(const pal_line *line)
{
    return (pal_plan_item){.kind = line->kind,
            .disposition = line->disposition,
            .seq = line->seq,
            .first_seq = line->first_seq,
            .count = line->count,
            .tokens = line->size.tokens,
            .bytes = line->size.bytes,
            .images = line->size.images,
            .is_pinned = line->message && line->message->flags & PAL_MESSAGE_FLAG_PINNED,
            .given = line->message,
            .reason = line->reason};
}

/* Adds a line that the repair did not return: it was left out, or it is part of another message. */
static void add_absent(composition *c, size_t index)
{
    const pal_line *line = &c->draft->lines[index];
    pal_plan_item *item = add_item(c);
    *item = item_of(line);
    if (line->kind == PAL_PLAN_ITEM_RANGE)
        return;
    if (line->kind == PAL_PLAN_ITEM_TOOLS) {
        item->hash = line->hash;
        return;
    }
    const line_state *state = &c->states[index];
    item->disposition = PAL_DISPOSITION_DROPPED;
    item->reason = state->is_given ? state->repairs : c->choice->dropped;
    if (!state->is_given)
        return;
    if (item->reason.len == 0)
        item->reason = PAL_TEXT("nothing in it can be sent");
    if (!state->is_dropped && state->repairs.len) {
        item->disposition = PAL_DISPOSITION_SENT_REPAIRED;
        item->tokens = item->bytes = item->images = 0; /* they are counted in the message that
                                                          contains it */
    }
}

static void add_absent_before(composition *c, size_t index)
{
    for (; c->next < index; c->next++) {
        if (c->draft->lines[c->next].kind && !c->states[c->next].is_returned)
            add_absent(c, c->next);
    }
}

static pal_status measure_changed(
        composition *c, const pal_message *message, pal_plan_item *item, pal_error *err)
{
    pal_size size = {0};
    pal_context_measure_message(message, &size);
    item->bytes = size.bytes;
    item->images = size.images;
    return pal_context_count_message(c->draft->input, message, &item->tokens, err);
}

static pal_status add_made(composition *c, size_t at, pal_error *err)
{
    pal_message *message = &c->repaired.messages[at];
    pal_plan_item *item = add_item(c);
    *item = (pal_plan_item){.kind = PAL_PLAN_ITEM_MESSAGE,
            .disposition = PAL_DISPOSITION_SENT_SYNTHESIZED,
            .seq = message->seq,
            .first_seq = message->seq,
            .count = 1,
            .hash = pal_prefix_hash_message(message),
            .message = message};
    if (at == c->opening) {
        item->reason = PAL_TEXT(
                "user message created: the first message must not be the assistant's");
    } else if (message->seq == 0) {
        item->reason = next_made(c);
    } else {
        item->disposition = PAL_DISPOSITION_SENT_REPAIRED;
        item->reason = PAL_TEXT("another part of the same message");
    }
    return measure_changed(c, message, item, err);
}

static pal_status add_returned(composition *c, size_t index, pal_message *message, pal_error *err)
{
    const pal_line *line = &c->draft->lines[index];
    pal_plan_item *item = add_item(c);
    pal_status status = PAL_OK;
    *item = item_of(line);
    item->message = message;
    item->hash = pal_prefix_hash_message(message);
    bool is_changed = message->tokens == 0 || message->parts != line->message->parts ||
            message->parts_len != line->message->parts_len;
    if (is_changed)
        status = measure_changed(c, message, item, err);
    pal_str repairs = c->states[index].repairs;
    bool is_before = index >= c->draft->tail && index - c->draft->tail < c->choice->start;
    if (is_changed || repairs.len) {
        item->disposition = PAL_DISPOSITION_SENT_REPAIRED;
        item->reason = repairs.len ? repairs : PAL_TEXT("changed to meet the provider's rules");
    } else if (item->reason.len == 0) {
        item->reason = is_before ? PAL_TEXT("kept") : c->choice->sent;
    }
    if (message->seq == 0)
        message->id = (pal_id){{0}};
    if (status != PAL_OK || !c->draft->input->notes_len ||
            (item->kind != PAL_PLAN_ITEM_NOTES && message->seq == 0))
        return status;
    return pal_draft_notes_items(c->draft, c->plan, item, err);
}

/* Returns the number of lines that did not come back. */
static size_t mark_returned(composition *c)
{
    size_t absent = c->draft->len;
    for (size_t i = 0; i < c->repaired.len; i++) {
        size_t line = find_line(c, &c->repaired.messages[i]);
        if (line == NO_LINE)
            continue;
        absent -= !c->states[line].is_returned;
        c->states[line].is_returned = true;
        c->hint = line + 1;
    }
    c->hint = 0;
    return absent;
}

static pal_status add_items(composition *c, pal_error *err)
{
    size_t room = c->repaired.len + mark_returned(c) + c->draft->input->notes_len;
    pal_status status = PAL_OK;
    c->plan->items_len = 0;
    c->plan->items = pal_arena_array(c->draft->arena, room, sizeof(*c->plan->items));
    if (!c->plan->items)
        return pal_draft_failure(c->draft, err);
    for (size_t i = 0; status == PAL_OK && i < c->repaired.len; i++) {
        pal_message *message = &c->repaired.messages[i];
        size_t line = find_line(c, message);
        if (line == NO_LINE || c->states[line].is_listed) {
            status = add_made(c, i, err);
            continue;
        }
        add_absent_before(c, line);
        status = add_returned(c, line, message, err);
        c->states[line].is_listed = true;
        c->hint = line + 1;
    }
    add_absent_before(c, c->draft->len);
    return status;
}

static void add_up(const pal_draft *draft, const pal_choice *choice, pal_plan *plan)
{
    plan->tokens_plain = 0;
    plan->bytes = 0;
    plan->images = 0;
    for (size_t i = 0; i < plan->items_len; i++) {
        const pal_plan_item *item = &plan->items[i];
        if (item->hash == 0)
            continue;
        plan->tokens_plain += item->tokens;
        plan->bytes += item->bytes;
        plan->images += item->images;
    }
    plan->tokens = pal_calibration_apply(&draft->input->calibration, plan->tokens_plain);
    plan->first_seq =
            choice->start < draft->tail_len ? pal_draft_tail(draft, choice->start)->seq : 0;
}

pal_status pal_compose_plan(
        pal_draft *draft, const pal_choice *choice, pal_plan *plan, pal_error *err)
{
    composition c = {.draft = draft, .choice = choice, .plan = plan};
    c.states = pal_arena_array(draft->arena, draft->len, sizeof(*c.states));
    pal_status status = c.states ? set_notice(&c, err) : pal_draft_failure(draft, err);
    if (status == PAL_OK)
        status = repair(&c, err);
    if (status != PAL_OK)
        return status;
    note_repairs(&c);
    plan->repairs = (uint32_t)c.repaired.repairs_len;
    plan->repairs_made = c.repaired.repairs;
    status = add_items(&c, err);
    if (status != PAL_OK)
        return status;
    add_up(draft, choice, plan);
    return pal_draft_failure(draft, err);
}
