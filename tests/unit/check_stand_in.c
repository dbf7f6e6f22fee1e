/* links: rendezvous/daemon/stand_in rendezvous/base/err rendezvous/base/log */
/* links: rendezvous/base/utf8 */
/*
 * A daemon asks the launcher that holds its port for it.
 */
#include <check.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/daemon/stand_in.h"
#include "tests/lib/suite.h"

#define PORT (20000 + (int)getpid() % 20000)

START_TEST(test_stand_in_lets_go_when_it_is_asked)
{
    int ready[2], status;
    char c;
    int port = PORT;
    ck_assert_int_eq(pipe(ready), 0);
    pid_t holder = fork();
    if (holder == 0) {
        int fd = stand_in_listen(port);
        struct pollfd p = {.fd = fd, .events = POLLIN};
        (void)!write(ready[1], "x", 1);
        (void)poll(&p, 1, 30000);
        bool asked = stand_in_is_asked(fd);
        (void)usleep(100000); /* its last leases */
        _exit(asked ? 0 : 1);
    }
    ck_assert_int_eq(read(ready[0], &c, 1), 1);
    ck_assert(stand_in_ask(port, 30000));
    ck_assert_int_eq(waitpid(holder, &status, 0), holder);
    ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(test_stand_in_that_is_not_there_is_not_waited_for)
{
    ck_assert(!stand_in_ask(PORT, 60000));
}
END_TEST

/* Another program that took the name: the wait is bounded. */
START_TEST(test_stand_in_that_does_not_let_go_is_waited_for_shortly)
{
    int fd = stand_in_listen(PORT);
    ck_assert_int_ge(fd, 0);
    ck_assert(!stand_in_ask(PORT, 50));
    (void)close(fd);
}
END_TEST

START_TEST(test_stand_in_name_is_taken_once)
{
    int fd = stand_in_listen(PORT);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(stand_in_listen(PORT), -1);
    ck_assert(!stand_in_is_asked(fd));
    (void)close(fd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stand_in");
    TCase *t = tcase_create("stand_in");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, test_stand_in_lets_go_when_it_is_asked);
    tcase_add_test(t, test_stand_in_that_is_not_there_is_not_waited_for);
    tcase_add_test(t, test_stand_in_that_does_not_let_go_is_waited_for_shortly);
    tcase_add_test(t, test_stand_in_name_is_taken_once);
    suite_add_tcase(suite, t);
    return suite_run(suite);
}
