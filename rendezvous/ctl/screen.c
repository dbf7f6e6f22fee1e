/*
 * The picture is on the terminal's second ("alternate") screen, so that what
 * stood there comes back. Its line buffer and its echo are off; Ctrl-C and
 * Ctrl-Z are signals still.
 *
 * Ways out: screen_close; exit(), by atexit; SIGINT, SIGTERM, SIGHUP and
 * SIGQUIT, which screen_wait tells; SIGTSTP, which gives the terminal back,
 * stops the process, and takes the terminal again after SIGCONT; a crash (a
 * handler gives it back and the signal does the rest). After a SIGSTOP, SIGCONT
 * takes it again. Only a SIGKILL leaves it as it is; `reset` mends that.
 *
 * The sequences are those of ECMA-48 and xterm's 1049 (second screen), 25
 * (cursor) and 7 (wrapping of lines), which all terminals of today know. A
 * curses library would be one more dependency, and more code than this file;
 * what it saves, bytes for the parts of a picture that stay, nobody needs here.
 */
#include "rendezvous/ctl/screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"

#define ENTER    "\033[?1049h\033[?25l\033[?7l\033[2J"
#define LEAVE    "\033[?7h\033[?25h\033[?1049l"
#define WRITE_MS 200

static const int told[] = {SIGINT,  SIGTERM,  SIGHUP, SIGQUIT,
                           SIGTSTP, SIGWINCH, SIGCONT};
static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
#define TOLD    (sizeof(told) / sizeof(told[0]))
#define CRASHES (sizeof(crashes) / sizeof(crashes[0]))

static struct {
    volatile sig_atomic_t taken;
    volatile sig_atomic_t came[TOLD];
    bool has_keys; /* standard input is a terminal; `before` is how it was */
    struct termios before;
    sigset_t open_mask; /* as it was */
} screen;

static void on_signal(int signo)
{
    for (size_t i = 0; i < TOLD; i++)
        if (told[i] == signo)
            screen.came[i] = 1;
}

/* The signal comes again when this returns, and does what it always does. */
static void on_crash(int signo)
{
    if (screen.taken != 0) {
        (void)!write(STDOUT_FILENO, LEAVE, sizeof(LEAVE) - 1);
        if (screen.has_keys)
            (void)tcsetattr(STDIN_FILENO, TCSANOW, &screen.before);
    }
    (void)raise(signo);
}

static void
handle(const int *signals, size_t n, void (*handler)(int), int flags)
{
    struct sigaction sa = {.sa_handler = handler, .sa_flags = flags};
    for (size_t i = 0; i < n; i++)
        (void)sigaction(signals[i], &sa, NULL); /* valid: cannot fail */
}

/* -- taking and giving back ------------------------------------------------ */

static bool put(const char *text, size_t len)
{
    return log_write(STDOUT_FILENO, text, len, WRITE_MS) >= 0 ||
           errno == EINTR || errno == EAGAIN;
}

static bool take(void)
{
    struct termios keys = screen.before;
    keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    keys.c_cc[VMIN] = 1;
    keys.c_cc[VTIME] = 0;
    screen.taken = 1;
    if (screen.has_keys)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &keys);
    return put(ENTER, sizeof(ENTER) - 1);
}

void screen_close(void)
{
    if (screen.taken == 0)
        return;
    screen.taken = 0;
    (void)put(LEAVE, sizeof(LEAVE) - 1);
    if (screen.has_keys)
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &screen.before);
}

static bool is_ignored(int signo)
{
    struct sigaction sa;
    return sigaction(signo, NULL, &sa) == 0 && sa.sa_handler == SIG_IGN;
}

bool screen_open(void)
{
    sigset_t mask;
    sigemptyset(&mask);
    for (size_t i = 0; i < TOLD; i++) {
        if (is_ignored(told[i]))
            continue; /* nohup: stays so */
        handle(&told[i], 1, on_signal, 0);
        sigaddset(&mask, told[i]);
    }
    (void)sigprocmask(SIG_BLOCK, &mask, &screen.open_mask);
    handle(crashes, CRASHES, on_crash, (int)SA_RESETHAND);
    screen.has_keys = isatty(STDIN_FILENO) == 1 &&
                      tcgetattr(STDIN_FILENO, &screen.before) == 0;
    (void)atexit(screen_close); /* fatalx */
    return take();
}

void screen_forget(void)
{
    screen.taken = 0;
    handle(told, TOLD, SIG_DFL, 0);
    handle(crashes, CRASHES, SIG_DFL, 0);
    (void)sigprocmask(SIG_SETMASK, &screen.open_mask, NULL);
}

/* What Ctrl-Z does. The signal that brings us back takes the screen again. */
static void stop(void)
{
    static const int stopper = SIGTSTP;
    sigset_t mask;
    screen_close();
    handle(&stopper, 1, SIG_DFL, 0);
    sigemptyset(&mask);
    sigaddset(&mask, SIGTSTP);
    (void)sigprocmask(SIG_UNBLOCK, &mask, NULL);
    (void)raise(SIGTSTP);
    (void)sigprocmask(SIG_BLOCK, &mask, NULL);
    handle(&stopper, 1, on_signal, 0);
    (void)take();
}

/* -- the picture ----------------------------------------------------------- */

void screen_size(int *rows, int *columns)
{
    struct winsize size;
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    *rows = known && size.ws_row > 0 ? size.ws_row : 24;
    *columns = known && size.ws_col > 0 ? size.ws_col : 80;
}

bool screen_put(const char *lines)
{
    char *all = NULL;
    size_t size;
    FILE *f = open_memstream(&all, &size);
    if (f == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for a picture");
    fputs("\033[H", f);
    while (*lines != '\0') {
        size_t len = strcspn(lines, "\n");
        bool last = lines[len] == '\0' || lines[len + 1] == '\0';
        /* Before the text: behind a full line it would take the last column. */
        fprintf(f, "\033[K%.*s%s", (int)len, lines, last ? "" : "\r\n");
        lines += len + (lines[len] != '\0');
    }
    if (fclose(f) != 0)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for a picture");
    bool written = put(all, size);
    free(all);
    return written;
}

/* -- waiting --------------------------------------------------------------- */

/* Takes what came: a signal is told once. */
static int signals_news(void)
{
    int news = 0;
    for (size_t i = 0; i < TOLD; i++) {
        if (screen.came[i] == 0)
            continue;
        screen.came[i] = 0;
        if (told[i] == SIGTSTP)
            stop();
        else if (told[i] == SIGCONT)
            (void)take();
        bool drawn =
            told[i] == SIGTSTP || told[i] == SIGCONT || told[i] == SIGWINCH;
        news |= drawn ? SCREEN_RESIZED : SCREEN_ENDED;
    }
    return news;
}

static int read_keys(char *keys, size_t size, size_t *keys_len)
{
    ssize_t n = read(STDIN_FILENO, keys, size);
    if (n > 0) {
        *keys_len = (size_t)n;
        return SCREEN_KEYS;
    }
    return n == 0 || (errno != EINTR && errno != EAGAIN) ? SCREEN_ENDED : 0;
}

int screen_wait(
    int fd, int64_t until_us, char *keys, size_t size, size_t *keys_len)
{
    struct pollfd fds[] = {
        {.fd = screen.has_keys ? STDIN_FILENO : -1, .events = POLLIN},
        {.fd = fd, .events = POLLIN},
    };
    int ms = (int)mono_ms_until(mono_now_us(), until_us);
    struct timespec span = {.tv_sec = ms / 1000,
                            .tv_nsec = ms % 1000 * 1000000L};
    *keys_len = 0;
    int n = ppoll(fds, 2, &span, &screen.open_mask);
    int news = signals_news();
    if (n > 0 && fds[0].revents != 0 && news == 0)
        news |= read_keys(keys, size, keys_len);
    if (n > 0 && fds[1].revents != 0)
        news |= SCREEN_FD;
    return news;
}
