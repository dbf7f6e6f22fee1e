/* links: tests/lib/scratch rendezvous/net/token rendezvous/base/err */
/* The token file: its rights, and its contents. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

static const struct file_case {
    const char *text;
    mode_t mode;
    enum ddp_code code;
    const char *say;
} file_cases[] = {
    {"0123456789abcdef", 0600, DDP_E_OK, ""},
    {"0123456789abcdef", 0400, DDP_E_OK, ""},
    {"0123456789abcdef\r\n \n", 0600, DDP_E_OK, ""},
    {"0123456789abcdef", 0640, DDP_E_CONFIG, "chmod 600"},
    {"0123456789abcdef", 0644, DDP_E_CONFIG, "mode 0644"},
    {"0123456789abcdef", 0602, DDP_E_CONFIG, "chmod 600"},
    {"0123456789abcde\n", 0600, DDP_E_CONFIG, "too short"},
    {"", 0600, DDP_E_CONFIG, "too short"},
};

START_TEST(test_token_file_is_checked)
{
    const struct file_case *c = &file_cases[_i];
    uint8_t token[TOKEN_ROOM];
    size_t len;
    struct ddp_err err = {.code = DDP_E_OK};
    put("token", c->text, c->mode);
    int rc = token_read("token", token, &len, &err);
    ck_assert_int_eq(rc, c->code == DDP_E_OK ? 0 : -1);
    ck_assert_int_eq(err.code, c->code);
    ck_assert_ptr_nonnull(strstr(err.text, c->say));
    if (rc == 0)
        ck_assert_uint_eq(len, 16);
}
END_TEST

/* What systemd laid out may look open to a group, and nothing more. */
START_TEST(test_token_file_of_systemd_may_have_an_acl)
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
        uint8_t token[TOKEN_ROOM];
        size_t len;
        struct ddp_err err;
        put("token", "0123456789abcdef", cases[i].mode);
        (void)snprintf(path, sizeof(path), "%s/token", scratch);
        ck_assert_int_eq(setenv("CREDENTIALS_DIRECTORY", cases[i].folder, 1),
                         0);
        int rc = token_read(path, token, &len, &err);
        ck_assert_int_eq(rc, cases[i].works ? 0 : -1);
        ck_assert_int_eq(unlink("token"), 0);
    }
}
END_TEST

START_TEST(test_token_file_of_a_wrong_kind_is_refused)
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
    uint8_t token[TOKEN_ROOM];
    size_t len;
    struct ddp_err err;
    ck_assert_int_eq(mkdir("folder", 0700), 0);
    ck_assert_int_eq(mkfifo("fifo", 0600), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_int_eq(token_read(cases[i].name, token, &len, &err), -1);
        ck_assert_int_eq(err.code, cases[i].code);
        ck_assert_ptr_nonnull(strstr(err.text, cases[i].name));
    }
}
END_TEST

/* 4096 bytes and a line's end will do, by a link too; one byte more will not;
 * and what was read is the token without the line's end. */
START_TEST(test_token_file_is_the_token_without_white_space)
{
    uint8_t token[TOKEN_ROOM];
    size_t len;
    struct ddp_err err;
    char text[TOKEN_MAX + 3];
    memset(text, 'k', sizeof(text));
    memcpy(text + TOKEN_MAX + 1, "\n", 2);
    put("token", text, 0600);
    ck_assert_int_eq(token_read("token", token, &len, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "too long"));
    memcpy(text + TOKEN_MAX, "\n", 2);
    put("token", text, 0600);
    ck_assert_int_eq(symlink("token", "link"), 0);
    ck_assert_int_eq(token_read("link", token, &len, &err), 0);
    ck_assert_uint_eq(len, TOKEN_MAX);
    ck_assert_mem_eq(token, text, TOKEN_MAX);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("token");
    TCase *file = tcase_create("file");
    tcase_add_checked_fixture(file, scratch_enter, scratch_leave);
    tcase_add_loop_test(file, test_token_file_is_checked, 0,
                        sizeof(file_cases) / sizeof(file_cases[0]));
    tcase_add_test(file, test_token_file_of_a_wrong_kind_is_refused);
    tcase_add_test(file, test_token_file_of_systemd_may_have_an_acl);
    tcase_add_test(file, test_token_file_is_the_token_without_white_space);
    suite_add_tcase(s, file);
    return suite_run(s);
}
