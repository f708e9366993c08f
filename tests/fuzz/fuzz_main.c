/* fuzz_main.c - runs a libFuzzer target without libFuzzer, as a plain test:
 *
 *   fuzz_x [--mutations=N] [--seed=N] FILE-OR-DIRECTORY...
 *
 * Runs all files unchanged, then N mutations of them that depend only on the seed. A target reports
 * a failure by crashing; then the current input is written to standard error, escaped. */
#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FILES_MAX 4096
#define INPUT_MAX (1 << 20)

typedef struct input {
    uint8_t *data;
    size_t len;
} input;

static input inputs[FILES_MAX];
static size_t input_count;
static uint64_t random_state = 1;

static uint32_t roll(size_t sides)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % sides);
}

static const uint8_t *running;
static size_t running_len;

/* printf() and the heap must not be used here any more. */
static void show_input(int signal_number)
{
    static const char digits[] = "0123456789abcdef";
    char text[4 * 1024], *p = text;
    for (size_t i = 0; i < running_len && p + 5 < text + sizeof text; i++) {
        uint8_t c = running[i];
        if (c >= 0x20 && c < 0x7f) {
            *p++ = (char)c;
        } else {
            *p++ = '\\';
            *p++ = 'x';
            *p++ = digits[c >> 4];
            *p++ = digits[c & 15];
        }
    }
    *p++ = '\n';
    if (write(STDERR_FILENO, text, (size_t)(p - text)) < 0)
        _exit(2);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* In memory of exactly that size, so that a sanitizer sees any read past the end. */
static void run(const uint8_t *data, size_t len)
{
    uint8_t *copy = malloc(len ? len : 1);
    if (!copy)
        exit(2);
    if (len)
        memcpy(copy, data, len);
    running = copy;
    running_len = len;
    LLVMFuzzerTestOneInput(copy, len);
    running_len = 0;
    free(copy);
}

static bool load_file(const char *path)
{
    static uint8_t data[INPUT_MAX];
    FILE *file = fopen(path, "rb");
    if (!file || input_count == FILES_MAX) {
        fprintf(stderr, "fuzz: cannot read '%s'\n", path);
        if (file)
            fclose(file);
        return false;
    }
    input *in = &inputs[input_count++];
    in->len = fread(data, 1, sizeof data, file);
    fclose(file);
    in->data = malloc(in->len ? in->len : 1);
    if (in->data && in->len)
        memcpy(in->data, data, in->len);
    return in->data != NULL;
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Sorted by name, so that a seed always means the same. */
static bool load(const char *path)
{
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, compare_names);
    if (count < 0)
        return load_file(path);
    bool loaded = true;
    for (int i = 0; i < count; i++) {
        char name[4096];
        snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            loaded = load_file(name) && loaded;
        free(entries[i]);
    }
    free(entries);
    return loaded;
}

static void insert(input *in, size_t at, const uint8_t *data, size_t len)
{
    if (in->len + len > INPUT_MAX)
        return;
    memmove(in->data + at + len, in->data + at, in->len - at);
    memmove(in->data + at, data, len);
    in->len += len;
}

static void erase(input *in, size_t at, size_t len)
{
    memmove(in->data + at, in->data + at + len, in->len - at - len);
    in->len -= len;
}

/* A piece of any of the inputs, of up to 64 bytes. */
static input piece(void)
{
    const input *from = &inputs[roll(input_count)];
    size_t at = roll(from->len + 1);
    size_t len = roll((from->len - at < 64 ? from->len - at : 64) + 1);
    return (input){from->data + at, len};
}

static void mutate(input *in)
{
    static const uint8_t bytes[] =
            "\0\x01\n\r \"'\\/,:;=-+.0159eEntfu{}[]<>&%\x7f\x80\xbf\xc0\xe2\xf0\xff";
    size_t at = roll(in->len + 1), left = in->len - at;
    uint8_t byte = bytes[roll(sizeof bytes - 1)];
    input other = piece();
    switch (roll(6)) {
    case 0:
        if (left)
            in->data[at] ^= (uint8_t)(1u << roll(8));
        break;
    case 1:
        if (left)
            in->data[at] = byte;
        break;
    case 2:
        insert(in, at, &byte, 1);
        break;
    case 3:
        insert(in, at, other.data, other.len);
        break;
    case 4:
        erase(in, at, roll((left < 16 ? left : 16) + 1));
        break;
    default:
        in->len = roll(8) ? in->len : at;
    }
}

static void run_mutations(unsigned long count)
{
    static uint8_t data[INPUT_MAX];
    for (; count && input_count; count--) {
        const input *from = &inputs[roll(input_count)];
        input in = {data, from->len};
        memcpy(data, from->data, from->len);
        for (uint32_t left = 1 + roll(6); left; left--)
            mutate(&in);
        run(in.data, in.len);
    }
}

int main(int argc, char **argv)
{
    unsigned long mutations = 0;
    bool loaded = true;
    signal(SIGABRT, show_input);
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--mutations=", 12) == 0)
            mutations = strtoul(argv[i] + 12, NULL, 10);
        else if (strncmp(argv[i], "--seed=", 7) == 0)
            random_state = strtoull(argv[i] + 7, NULL, 10);
        else
            loaded = load(argv[i]) && loaded;
    }
    for (size_t i = 0; i < input_count; i++)
        run(inputs[i].data, inputs[i].len);
    run_mutations(mutations);
    printf("%zu files and %lu mutations\n", input_count, mutations);
    for (size_t i = 0; i < input_count; i++)
        free(inputs[i].data);
    return loaded && input_count ? 0 : 1;
}
