/* fuzz_provider.c - any bytes as the response of a model service: nothing crashes, the reported
 * text is valid UTF-8 and has one end, and the places where the bytes are cut do not matter.
 *
 * The first byte chooses the service, the second one the HTTP code and the content type, and the
 * third one where to cut. */
#include <stdint.h>
#include <stdlib.h>
#include "base/utf8.h"
#include "dialect/anthropic/anthropic.h"
#include "support/answer_check.h"
#include "support/dialect_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) require((condition), #condition, __LINE__)

static void require(bool held, const char *text, int line)
{
    if (held)
        return;
    fprintf(stderr, "fuzz_provider.c:%d: %s\n", line, text);
    abort();
}

static void try_reader(pal_str bytes, uint8_t service, uint8_t head, uint8_t cut)
{
    static const pal_reader_kind *const kinds[] = {
            &pal_reader_openai, &pal_reader_anthropic, &pal_reader_mistral_conversations,
            &pal_reader_responses};
    static const long codes[] = {200, 200, 200, 200, 200, 400, 429, 500};
    static const char *const types[] = {"text/event-stream", "application/json", NULL, "text/html"};
    const answer_case in = {.kind = kinds[service % 4],
            .code = codes[head & 7],
            .content_type = types[head >> 3 & 3]};
    answer_log whole, pieces;
    answer_run(&in, bytes, bytes.len + 1, 1, &whole);
    answer_run(&in, bytes, cut, cut % 16 + 1u, &pieces);
    REQUIRE(whole.ended && !whole.text.failure);
    REQUIRE(pal_utf8_is_valid(pal_buf_str(&whole.text)));
    REQUIRE(pal_str_equal(pal_buf_str(&whole.text), pal_buf_str(&pieces.text)));
    REQUIRE(whole.end.status != PAL_NO_MEMORY);
    log_done(&whole);
    log_done(&pieces);
}

/* Readable input is written; written, read and written again, the output is the same. */
static void try_dialect(pal_str text)
{
    pal_arena *arena = pal_arena_new(0);
    pal_message *messages;
    size_t len;
    pal_str first, second;
    REQUIRE(arena != NULL);
    if (dialect_read(pal_anthropic_read, text, arena, &messages, &len, NULL) == PAL_OK) {
        REQUIRE(pal_anthropic_write(messages, len, arena, &first, NULL) == PAL_OK);
        pal_status status = dialect_read(pal_anthropic_read, first, arena, &messages, &len, NULL);
        REQUIRE(status == PAL_OK || status == PAL_LIMIT);
        if (status == PAL_OK) {
            REQUIRE(pal_anthropic_write(messages, len, arena, &second, NULL) == PAL_OK);
            REQUIRE(pal_str_equal(first, second));
        }
    }
    pal_arena_free(arena);
}

static void try_headers(pal_str text)
{
    int64_t ms = pal_retry_after_ms(pal_str_make(NULL, 0), text, 784111777000);
    REQUIRE(ms >= -1 && ms <= INT64_C(2147483647));
    (void)pal_error_is_retryable(400, text, text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    pal_str bytes = pal_str_make((const char *)data + 3, size - 3);
    try_reader(bytes, data[0], data[1], data[2]);
    try_dialect(bytes);
    try_headers(pal_str_make(bytes.data, bytes.len < 256 ? bytes.len : 256));
    return 0;
}
