/*
 * Happy path: open, check the open file (not the path, which could change),
 * read, take its lines, cut white space off their ends.
 *
 * Failure modes: each has its own message. All of them are errors at the start
 * of a program: a launcher never goes on without the token that it was given.
 *
 * Why weak tokens are refused: the first message of a handshake holds a proof
 * (the binder) that whoever records it can compare with guesses, as fast as
 * SHA-256 can be had. So a token must not be a password. What a person makes up
 * shows by words, repeats and sequences; what a program makes at random has
 * hardly any of these. Letters alone may be either: in a language some pairs of
 * them are frequent, and among random ones no pair is (is_language).
 */
#include "rendezvous/net/token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Whether it is a credential that systemd provides, systemd.exec(5). If systemd
 * grants access by an ACL, stat(2) shows its mask as rights of the group,
 * though the group has none.
 */
static bool is_credential(const char *path)
{
    const char *folder = getenv("CREDENTIALS_DIRECTORY");
    size_t len = folder != NULL ? strlen(folder) : 0;
    return len > 0 && strncmp(path, folder, len) == 0 && path[len] == '/';
}

static int check_file(const char *path, int fd, struct ddp_err *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return ddp_err_sys(err, DDP_E_NOINPUT, "cannot read the token file %s",
                           path);
    if (!S_ISREG(st.st_mode))
        return ddp_err_set(err, DDP_E_CONFIG,
                           "the token file %s is not a regular file", path);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return ddp_err_set(err, DDP_E_CONFIG,
                           "the token file %s belongs to user %ld: it must "
                           "belong to this user or to root",
                           path, (long)st.st_uid);
    mode_t forbidden = is_credential(path) ? 037 : 077;
    if ((st.st_mode & forbidden) != 0)
        return ddp_err_set(err, DDP_E_CONFIG,
                           "the token file %s is open to other users (mode "
                           "%04o): run chmod 600 on it",
                           path, (unsigned)(st.st_mode & 07777));
    return 0;
}

static bool is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Reads at most `cap` bytes; -1 with errno. */
static ssize_t read_all(int fd, uint8_t *data, size_t cap)
{
    size_t len = 0;
    while (len < cap) {
        ssize_t n = read(fd, data + len, cap - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        len += (size_t)n;
    }
    return (ssize_t)len;
}

/* -- how hard it is to guess ----------------------------------------------- */

#define GRAM        4  /* bytes that were there before: a repeat */
#define WORD_MIN    4  /* letters in a row: a word */
#define WORD_TENTHS 20 /* of a bit, for each letter of a language's word */
#define LETTER_TENTHS                                                          \
    30 /* the same, if the letters are of no language that is known here */
#define DIGIT_TENTHS 33
#define HEX_TENTHS   40
#define ALNUM_TENTHS 50 /* of one case */
#define PRINT_TENTHS 60
#define BYTE_TENTHS  80

static bool is_lower(uint8_t c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_upper(uint8_t c)
{
    return c >= 'A' && c <= 'Z';
}

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

/* Separators say nothing: those of a UUID, or between words. */
static bool is_separator(uint8_t c)
{
    return is_space(c) || (c != '\0' && strchr("-_.,:;", c) != NULL);
}

static bool is_binary(const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (p[i] >= 0x7f || (p[i] < ' ' && !is_space(p[i])))
            return true;
    return false;
}

/* Tenths of a bit that one byte has, by the smallest set of characters that has
 * all of them. */
static unsigned tenths_per_byte(const uint8_t *p, size_t len)
{
    bool lower = false, upper = false, beyond_hex = false;
    if (is_binary(p, len))
        return BYTE_TENTHS;
    for (size_t i = 0; i < len; i++) {
        lower |= is_lower(p[i]);
        upper |= is_upper(p[i]);
        beyond_hex |=
            (p[i] > 'f' && is_lower(p[i])) || (p[i] > 'F' && is_upper(p[i]));
        if (!is_lower(p[i]) && !is_upper(p[i]) && !is_digit(p[i]) &&
            !is_separator(p[i]))
            return PRINT_TENTHS;
    }
    if (lower && upper)
        return PRINT_TENTHS;
    if (!lower && !upper)
        return DIGIT_TENTHS;
    return beyond_hex ? ALNUM_TENTHS : HEX_TENTHS;
}

/* Places in a row of a keyboard; 0: it is in none. */
static int key_of(uint8_t c)
{
    static const char keys[] = " qwertyuiop   asdfghjkl   zxcvbnm";
    const char *at = is_lower(c) || is_upper(c) ? strchr(keys, c | 0x20) : NULL;
    return at != NULL ? (int)(at - keys) : 0;
}

/* Whether byte i goes on as those before it: aaaa, abcd, 9753, qwerty. */
static bool is_in_sequence(const uint8_t *p, size_t i)
{
    if (i < 2)
        return false;
    int step = key_of(p[i]) - key_of(p[i - 1]);
    return p[i] - p[i - 1] == p[i - 1] - p[i - 2] ||
           ((step == 1 || step == -1) && key_of(p[i]) > 0 &&
            step == key_of(p[i - 1]) - key_of(p[i - 2]));
}

/* Whether byte i ends some bytes that were there before. */
static bool is_in_repeat(const uint8_t *p, size_t i)
{
    for (size_t end = GRAM - 1; end < i; end++)
        if (memcmp(p + end - (GRAM - 1), p + i - (GRAM - 1), GRAM) == 0)
            return true;
    return false;
}

/* Whether byte i is in a word: lower-case letters, and a capital before them,
 * or capitals alone; a short one stands between separators. */
static bool is_in_word(const uint8_t *p, size_t len, size_t i)
{
    bool (*is_letter)(uint8_t c) = is_upper(p[i]) ? is_upper : is_lower;
    if (is_upper(p[i]) && i + 1 < len && is_lower(p[i + 1])) {
        is_letter = is_lower; /* its first letter */
        i++;
    }
    size_t first = i, end = i;
    while (first > 0 && is_letter(p[first - 1]))
        first--;
    while (end < len && is_letter(p[end]))
        end++;
    bool alone = (first == 0 || is_separator(p[first - 1])) &&
                 (end == len || is_separator(p[end]));
    return end > first && (alone || end - first >= WORD_MIN);
}

/* Whether words are most of it. Random letters make a short one now and then.
 */
static bool is_text(const uint8_t *p, size_t len)
{
    size_t in_words = 0, others = 0;
    if (is_binary(p, len))
        return false;
    for (size_t i = 0; i < len; i++)
        if (is_in_word(p, len, i))
            in_words++;
        else if (!is_separator(p[i]))
            others++;
    return in_words >= 4 * others && in_words > 0;
}

static uint8_t to_lower(uint8_t c)
{
    return is_upper(c) ? (uint8_t)(c - 'A' + 'a') : c;
}

/* The hundred most frequent in English; other languages share many. */
static bool is_frequent_pair(uint8_t a, uint8_t b)
{
    static const char pairs[] =
        "th he in er an re on at en nd ti es or te of ed is it al ar st to nt "
        "ng se ha as ou io le ve co me de hi ri ro ic ne ea ra ce li ch ll be "
        "ma si om ur ca el ta la ns di fo ho pe ec pr no ct us ac ot il tr ly "
        "nc et ut ss so rs un lo wa ge ie wh ee wi em ad ol rt po we na ul ni "
        "ts mo ow pa im mi ";
    for (const char *p = pairs; p < pairs + sizeof(pairs) - 1; p += 3)
        if ((uint8_t)p[0] == to_lower(a) && (uint8_t)p[1] == to_lower(b))
            return true;
    return false;
}

/* Four pairs of ten or more: in English it is six or seven, and of random
 * letters one or two. One text of fifty is taken for random, one random token
 * of five hundred for a text (32 letters). */
static bool is_language(const uint8_t *p, size_t len)
{
    size_t pairs = 0, frequent = 0;
    for (size_t i = 1; i < len; i++) {
        bool letters = (is_lower(p[i - 1]) || is_upper(p[i - 1])) &&
                       (is_lower(p[i]) || is_upper(p[i]));
        pairs += letters;
        frequent += letters && is_frequent_pair(p[i - 1], p[i]);
    }
    return 10 * frequent >= 4 * pairs;
}

unsigned token_bits(const uint8_t *token, size_t len)
{
    unsigned each = tenths_per_byte(token, len), in_word = each;
    if (is_text(token, len))
        in_word = is_language(token, len) ? WORD_TENTHS : LETTER_TENTHS;
    unsigned sum = 0;
    for (size_t i = 0; i < len; i++) {
        bool nothing = each < BYTE_TENTHS && is_separator(token[i]);
        if (nothing || is_in_sequence(token, i) || is_in_repeat(token, i))
            continue;
        sum += is_in_word(token, len, i) ? in_word : each;
    }
    return sum / 10;
}

/* -- the file -------------------------------------------------------------- */

/* The lines with their ends, white space, and one byte too many. */
#define FILE_ROOM (TOKENS_MAX * (TOKEN_MAX + 64u))

static int check_token(const char *path,
                       const char *which,
                       const uint8_t *bytes,
                       size_t len,
                       struct ddp_err *err)
{
    static const char advice[] = "make one with: openssl rand -hex 32";
    if (len < TOKEN_MIN || len > TOKEN_MAX)
        return ddp_err_set(err, DDP_E_CONFIG,
                           "the %stoken in %s is too %s: it must have %u to %u "
                           "bytes (%s)",
                           which, path, len < TOKEN_MIN ? "short" : "long",
                           TOKEN_MIN, TOKEN_MAX, advice);
    if (token_bits(bytes, len) < TOKEN_BITS)
        return ddp_err_set(err, DDP_E_CONFIG,
                           "the %stoken in %s is too easy to guess: it must be "
                           "random (%s)",
                           which, path, advice);
    return 0;
}

/* Each line that is not empty is a token. */
static int split(const char *path,
                 const uint8_t *text,
                 size_t len,
                 struct tokens *out,
                 struct ddp_err *err)
{
    for (size_t at = 0; at < len;) {
        const uint8_t *eol = memchr(text + at, '\n', len - at);
        size_t end = eol != NULL ? (size_t)(eol - text) : len;
        size_t n = end - at;
        while (n > 0 && is_space(text[at + n - 1]))
            n--;
        if (n > 0 && out->count == TOKENS_MAX)
            return ddp_err_set(err, DDP_E_CONFIG,
                               "the token file %s has too many lines: the "
                               "first is the token, and a second one is "
                               "accepted beside it",
                               path);
        if (n > 0) {
            if (check_token(path, out->count > 0 ? "second " : "", text + at, n,
                            err) != 0)
                return -1;
            struct token *t = &out->at[out->count++];
            memcpy(t->bytes, text + at, n);
            t->len = n;
        }
        at = end + 1;
    }
    return out->count > 0 ? 0 : check_token(path, "", text, 0, err);
}

int token_read(const char *path, struct tokens *out, struct ddp_err *err)
{
    uint8_t text[FILE_ROOM];
    out->count = 0;
    /* O_NONBLOCK: a FIFO must not make this wait; it is refused below. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return ddp_err_sys(err, DDP_E_NOINPUT, "cannot read the token file %s",
                           path);
    int rc = check_file(path, fd, err);
    ssize_t n = rc == 0 ? read_all(fd, text, sizeof(text)) : 0;
    if (n < 0)
        rc = ddp_err_sys(err, DDP_E_NOINPUT, "cannot read the token file %s",
                         path);
    (void)close(fd); /* read only */
    if (rc == 0 && (size_t)n == sizeof(text))
        rc = ddp_err_set(err, DDP_E_CONFIG,
                         "the token file %s is too long: it has one or two "
                         "lines of %u to %u bytes",
                         path, TOKEN_MIN, TOKEN_MAX);
    if (rc == 0)
        rc = split(path, text, (size_t)n, out, err);
    explicit_bzero(text, sizeof(text));
    return rc;
}

void tokens_wipe(struct tokens *t)
{
    explicit_bzero(t, sizeof(*t));
}
