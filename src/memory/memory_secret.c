/* memory_secret.c - finds secrets in a text. See memory_secret.h. */
#include "memory/memory_secret.h"

#include <string.h>
#include "base/text.h"

enum {
    KEY_LEN_MIN = 20,     /* shorter words are not keys, unless they have the prefix of one */
    PREFIXED_LEN_MIN = 12,
    CARD_LEN_MIN = 13,
    CARD_LEN_MAX = 19,
    IBAN_LEN_MIN = 15,
    IBAN_LEN_MAX = 34,
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

/* ---- Keys ---- */

static bool is_key_character(char c)
{
    return is_digit(c) || is_letter(c) || c == '-' || c == '_' || c == '+' || c == '=';
}

/* Keys mix digits and letters; long words and numbers do not. */
static bool is_key(pal_str word)
{
    static const char *const prefixes[] = {"sk-", "pk_", "sk_", "rk_", "ghp_", "gho_", "ghs_",
            "github_pat_", "glpat-", "xoxb-", "xoxp-", "AKIA", "ASIA", "AIza", "eyJ", "hf_", "npm_",
            NULL};
    size_t digits = 0, upper = 0, lower = 0, dashes = 0;

    for (size_t i = 0; prefixes[i]; i++)
        if (word.len >= PREFIXED_LEN_MIN && pal_text_begins(word, prefixes[i]))
            return true;
    for (size_t i = 0; i < word.len; i++) {
        digits += is_digit(word.data[i]);
        upper += word.data[i] >= 'A' && word.data[i] <= 'Z';
        lower += word.data[i] >= 'a' && word.data[i] <= 'z';
        dashes += word.data[i] == '-';
    }
    return word.len >= KEY_LEN_MIN && digits >= 3 && upper + lower >= 3 && dashes <= word.len / 8;
}

static bool has_key(pal_str text)
{
    for (size_t i = 0; i < text.len;) {
        size_t len = 0;

        while (i + len < text.len && is_key_character(text.data[i + len]))
            len++;
        if (is_key(pal_str_make(text.data + i, len)))
            return true;
        i += len > 0 ? len : 1;
    }
    return false;
}

/* ---- Numbers with a check digit ---- */

static bool passes_luhn(const char *digits, size_t len)
{
    unsigned sum = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned digit = (unsigned)(digits[len - 1 - i] - '0');

        if (i % 2 == 1)
            digit = digit * 2 > 9 ? digit * 2 - 9 : digit * 2;
        sum += digit;
    }
    return sum % 10 == 0;
}

/* Blanks and dashes may separate the digits. */
static bool has_card(pal_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char digits[CARD_LEN_MAX + 1];
        size_t len = 0;

        if (!is_digit(text.data[i]) || (i > 0 && is_digit(text.data[i - 1])))
            continue;
        for (size_t at = i; at < text.len && len <= CARD_LEN_MAX; at++) {
            if (is_digit(text.data[at]))
                digits[len++] = text.data[at];
            else if (text.data[at] != ' ' && text.data[at] != '-')
                break;
        }
        if (len >= CARD_LEN_MIN && len <= CARD_LEN_MAX && passes_luhn(digits, len))
            return true;
    }
    return false;
}

/* The country and the check digits count as if they were at the end, letters as 10 to 35. */
static bool passes_iban(const char *iban, size_t len)
{
    unsigned rest = 0;

    for (size_t i = 0; i < len; i++) {
        char c = iban[(i + 4) % len];
        unsigned value = is_digit(c) ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a' + 10);

        rest = (rest * (value > 9 ? 100 : 10) + value) % 97;
    }
    return rest == 1;
}

static bool has_iban(pal_str text)
{
    for (size_t i = 0; i + IBAN_LEN_MIN <= text.len; i++) {
        char iban[IBAN_LEN_MAX];
        size_t len = 0;

        if (!is_letter(text.data[i]) || !is_letter(text.data[i + 1]) ||
                !is_digit(text.data[i + 2]) || !is_digit(text.data[i + 3]) ||
                (i > 0 && (is_letter(text.data[i - 1]) || is_digit(text.data[i - 1]))))
            continue;
        for (size_t at = i; at < text.len && len < IBAN_LEN_MAX; at++) {
            if (is_digit(text.data[at]) || is_letter(text.data[at]))
                iban[len++] = text.data[at];
            else if (text.data[at] != ' ')
                break;
            if (len >= IBAN_LEN_MIN && passes_iban(iban, len))
                return true;
        }
    }
    return false;
}

/* ---- Passwords ---- */

static bool has_password(pal_str text)
{
    static const char *const words[] = {"password", "passwort", "kennwort", "passphrase",
            "mot de passe", "contrase\xc3\xb1" "a", "senha",
            "\xd0\xbf\xd0\xb0\xd1\x80\xd0\xbe\xd0\xbb\xd1\x8c",
            "\xe5\xaf\x86\xe7\xa0\x81", "\xe5\xaf\x86\xe7\xa2\xbc",
            "\xe3\x83\x91\xe3\x82\xb9\xe3\x83\xaf\xe3\x83\xbc\xe3\x83\x89", "pin is", "pin code",
            "api key is", "secret key", NULL};

    for (size_t i = 0; words[i]; i++) {
        size_t len = strlen(words[i]);

        for (size_t at = 0; at + len <= text.len; at++)
            if (strncasecmp(text.data + at, words[i], len) == 0)
                return true;
    }
    return false;
}

bool pal_secret_is_in(pal_str text)
{
    return has_key(text) || has_card(text) || has_iban(text) || has_password(text);
}
