/* links: tests/lib/scratch rendezvous/net/token rendezvous/base/{err,rng} */
/* The token file: its rights, and its contents. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rendezvous/base/rng.h"
#include "rendezvous/net/token.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

static void put(const char *name, const char *text, mode_t mode)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    ck_assert_int_eq(fchmod(fd, mode), 0);
    ck_assert_int_eq(close(fd), 0);
}

#define GOOD  "Xq3!vZ8pLw0#eR7m"
#define OTHER "k9$Tn2&yUb5*Hd1c"

static const struct file_case {
    const char *text;
    mode_t mode;
    enum ddp_code code;
    const char *say;
} file_cases[] = {
    {GOOD, 0600, DDP_E_OK, ""},
    {GOOD, 0400, DDP_E_OK, ""},
    {GOOD "\r\n \n", 0600, DDP_E_OK, ""},
    {GOOD, 0640, DDP_E_CONFIG, "chmod 600"},
    {GOOD, 0644, DDP_E_CONFIG, "mode 0644"},
    {GOOD, 0602, DDP_E_CONFIG, "chmod 600"},

    {GOOD "\n" OTHER, 0600, DDP_E_OK, ""},
    {"\n" GOOD "\n\n" OTHER "  \n\n", 0600, DDP_E_OK, ""},
    {"Xq3!vZ8pLw0#eR7\n", 0600, DDP_E_CONFIG,
     "the token in token is too short"},
    {"", 0600, DDP_E_CONFIG, "too short"},
    {" \n\n", 0600, DDP_E_CONFIG, "too short"},
    {GOOD "\nshort\n", 0600, DDP_E_CONFIG, "the second token in token is too"},
    {GOOD "\n" OTHER "\n" GOOD "\n", 0600, DDP_E_CONFIG, "too many lines"},
    {"correct horse battery staple\n", 0600, DDP_E_CONFIG,
     "too easy to guess: it must be random (make one with: openssl rand -hex "
     "32)"},
};

TEST_EACH(test_token_file_is_checked, file_cases)
{
    const struct file_case *c = &file_cases[_i];
    struct tokens t;
    struct ddp_err err = {.code = DDP_E_OK};
    put("token", c->text, c->mode);
    int rc = token_read("token", &t, &err);
    ck_assert_int_eq(rc, c->code == DDP_E_OK ? 0 : -1);
    ck_assert_int_eq(err.code, c->code);
    ck_assert_ptr_nonnull(strstr(err.text, c->say));
    if (rc != 0)
        return;
    ck_assert_uint_eq(t.count, strstr(c->text, OTHER) != NULL ? 2 : 1);
    ck_assert_uint_eq(t.at[0].len, 16);
    ck_assert_mem_eq(t.at[0].bytes, GOOD, 16);
    if (t.count > 1) {
        ck_assert_uint_eq(t.at[1].len, 16);
        ck_assert_mem_eq(t.at[1].bytes, OTHER, 16);
    }
}

/* What systemd laid out may look open to a group, and nothing more. */
TEST(test_token_file_of_systemd_may_have_an_acl)
{
    static const struct {
        const char *folder;
        mode_t mode;
        bool works;
    } cases[] = {
        {"/", 0440, false},      {scratch, 0440, true}, {scratch, 0444, false},
        {scratch, 0460, false},  {scratch, 0600, true}, {"", 0440, false},
        {"/tmp/c", 0440, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char path[sizeof(scratch) + 8];
        struct tokens t;
        struct ddp_err err;
        put("token", GOOD, cases[i].mode);
        (void)snprintf(path, sizeof(path), "%s/token", scratch);
        ck_assert_int_eq(setenv("CREDENTIALS_DIRECTORY", cases[i].folder, 1),
                         0);
        int rc = token_read(path, &t, &err);
        ck_assert_int_eq(rc, cases[i].works ? 0 : -1);
        ck_assert_int_eq(unlink("token"), 0);
    }
}

TEST(test_token_file_of_a_wrong_kind_is_refused)
{
    static const struct {
        const char *name;
        enum ddp_code code;
    } cases[] = {
        {"nothing", DDP_E_NOINPUT},
        {"folder", DDP_E_CONFIG},
        {"fifo", DDP_E_CONFIG},
        {"/dev/null", DDP_E_CONFIG},
    };
    struct tokens t;
    struct ddp_err err;
    ck_assert_int_eq(mkdir("folder", 0700), 0);
    ck_assert_int_eq(mkfifo("fifo", 0600), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_int_eq(token_read(cases[i].name, &t, &err), -1);
        ck_assert_int_eq(err.code, cases[i].code);
        ck_assert_ptr_nonnull(strstr(err.text, cases[i].name));
    }
}

/* 4096 bytes and a line's end will do, by a link too; one byte more will not;
 * and what was read is the token without the line's end. */
TEST(test_token_file_is_the_token_without_white_space)
{
    struct tokens t;
    struct ddp_err err;
    char text[TOKEN_MAX + 3];
    struct rng rng;
    rng_init(&rng, 5);
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (char)('!' + rng_below(&rng, 90));
    memcpy(text + TOKEN_MAX + 1, "\n", 2);
    put("token", text, 0600);
    ck_assert_int_eq(token_read("token", &t, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "too long"));
    memcpy(text + TOKEN_MAX, "\n", 2);
    put("token", text, 0600);
    ck_assert_int_eq(symlink("token", "link"), 0);
    ck_assert_int_eq(token_read("link", &t, &err), 0);
    ck_assert_uint_eq(t.count, 1);
    ck_assert_uint_eq(t.at[0].len, TOKEN_MAX);
    ck_assert_mem_eq(t.at[0].bytes, text, TOKEN_MAX);
}

/* Two of the longest fit, and a file of another kind is no reason to read on
 * for ever. */
TEST(test_token_file_may_have_two_of_the_longest)
{
    static char text[2 * TOKEN_MAX + 1000];
    struct tokens t;
    struct ddp_err err;
    struct rng rng;
    rng_init(&rng, 6);
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (char)('!' + rng_below(&rng, 90));
    text[TOKEN_MAX] = '\n';
    memcpy(text + 2 * TOKEN_MAX + 1, "\n", 2);
    put("token", text, 0600);
    ck_assert_int_eq(token_read("token", &t, &err), 0);
    ck_assert_uint_eq(t.count, 2);
    memset(text, '\n', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    put("token", text, 0600);
    ck_assert_int_eq(token_read("token", &t, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "too long"));
}

/* What people make up. */
static const char *const weak[] = {
    "0123456789abcdef",
    "0123456789abcdef0123456789abcdef",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "abababababababababababababababababab",
    "password123password123password123",
    "a token of more than sixteen bytes",
    "a sentence is no secret, however long it may be",
    "I am what I am, and that is all",
    "correcthorsebatterystaple",
    "Correct-Horse-Battery-Staple",
    "CORRECT HORSE BATTERY STAPLE",
    "12345678901234567890",
    "2024-11-22 16:17:58 2024-11-22",
    "qwertyuiopasdfghjkl;",
    "qwertyuiopasdfghjklzxcvbnm1",
    "deadbeefdeadbeefdeadbeefdeadbeef",
    "themorningtrainleavesfromplatformnine",
    "diekatzesitztaufdemdachdeshauses",
    "lepetitchatestassissurlatabledebois",
    "secretsecretsecretsecretsecretsecretsecretsecret",
    "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz",
    "hgvpqkzmwjbtfxrl", /* random, and too short for letters alone */
    "0a1b2c3d4e5f6a7b",
};

/* What programs make: openssl rand -hex, -base64, uuidgen, and less usual
 * alphabets, each with 1000 seeds. */
static const struct {
    const char *alphabet;
    int len;
} strong[] = {
    {"0123456789abcdef", 64},
    {"0123456789abcdef", 32},
    {"0123456789ABCDEF", 32},
    {"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", 44},
    {"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", 24},
    {"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", 20},
    {"abcdefghijklmnopqrstuvwxyz0123456789", 40},
    {"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 52},
    {"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 32},
    {"abcdefghijklmnopqrstuvwxyz", 64},
    {"0123456789", 40},
    {"", 16}, /* bytes */
};

CASE("guess", .tags = "fast")

TEST_EACH(test_token_that_a_person_made_up_is_weak, weak)
{
    size_t len = strlen(weak[_i]);
    ck_assert_uint_ge(len, TOKEN_MIN);
    unsigned bits = token_bits((const uint8_t *)weak[_i], len);
    ck_assert_msg(bits < TOKEN_BITS, "%u bits", bits);
}

TEST_EACH(test_token_that_is_random_is_strong, strong)
{
    struct rng rng;
    uint8_t token[64];
    uint32_t letters = (uint32_t)strlen(strong[_i].alphabet);
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        rng_init(&rng, seed);
        for (int i = 0; i < strong[_i].len; i++)
            token[i] =
                letters > 0
                    ? (uint8_t)strong[_i].alphabet[rng_below(&rng, letters)]
                    : (uint8_t)rng_below(&rng, 256);
        unsigned bits = token_bits(token, (size_t)strong[_i].len);
        ck_assert_msg(bits >= TOKEN_BITS, "seed %d: %u bits", (int)seed, bits);
    }
}

/* Any 32 letters of these, which are as people write. */
static const char written[] =
    "whenthesunroseoverthehillsthefarmerwenttothebarnandfedhisanimalsbefore"
    "anyoneelsewasawakethenewserverhastwonetworkcardsandfourdiskswhichare"
    "replacedeveryotheryearpleaseaskthesystemadministratorforanaccountif"
    "youneedmorememorythanyourjobisallowedtousemyfavouritepasswordisthe"
    "nameofmyfirstdogwithoutanynumbers";

static bool is_weak(const char *letters)
{
    return token_bits((const uint8_t *)letters, 32) < TOKEN_BITS;
}

/* Of letters alone it can be told by chance only; and so it is, mostly. */
TEST(test_token_of_letters_is_told_from_text)
{
    int texts = (int)sizeof(written) - 32, weak_texts = 0, weak_random = 0;
    for (int i = 0; i < texts; i++)
        weak_texts += is_weak(written + i);
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct rng rng;
        char letters[32];
        rng_init(&rng, seed);
        for (int i = 0; i < 32; i++)
            letters[i] =
                (char)((seed % 2 == 0 ? 'a' : 'A') + (int)rng_below(&rng, 26));
        weak_random += is_weak(letters);
    }
    ck_assert_int_lt(weak_random, 10);
    ck_assert_msg(weak_texts > texts * 95 / 100, "%d of %d", weak_texts, texts);
}

TEST(test_token_of_uuidgen_is_strong)
{
    static const char uuid[] = "8f14e45f-ceea-467f-a0d3-5b1c9e27f640";
    ck_assert_uint_ge(token_bits((const uint8_t *)uuid, sizeof(uuid) - 1),
                      TOKEN_BITS);
}

SUITE("token", "file", FIXTURE(scratch_enter, scratch_leave))
