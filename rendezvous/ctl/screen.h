/*
 * ctl/screen: the terminal as a picture: a second screen without a cursor and
 * with keys instead of lines, and the terminal as it was at every way out. One
 * per process.
 *
 * From screen_open on, signals are blocked but in screen_wait, which tells
 * them.
 */
#ifndef RENDEZVOUS_CTL_SCREEN_H
#define RENDEZVOUS_CTL_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum screen_news {
    SCREEN_KEYS = 1,    /* bytes were typed */
    SCREEN_RESIZED = 2, /* or comes back from a stop: all is to be drawn */
    SCREEN_ENDED = 4, /* SIGINT, SIGTERM, SIGHUP, SIGQUIT, or the end of keys */
    SCREEN_FD = 8,    /* the caller's descriptor can be read */
};

/* Takes the terminal on standard output, and keys from standard input if that
 * is a terminal, too. False: standard output cannot be written. */
bool screen_open(void);
/* Gives it back. Nothing if it was not taken. */
void screen_close(void);

/* At least 1 of each; 24 and 80 if the terminal does not say. */
void screen_size(int *rows, int *columns);

/*
 * Waits for keys, signals and `fd` (-1: none), at most until `until_us`
 * (mono_now_us time). Ctrl-Z gives the terminal back and stops the process;
 * after that it is taken again. Keys go to `keys`, at most `size` bytes,
 * *keys_len of them. Returns bits of screen_news; 0: the time is over.
 */
int screen_wait(
    int fd, int64_t until_us, char *keys, size_t size, size_t *keys_len);

/* Shows lines from the upper left corner, in one write. False: standard output
 * cannot be written. A terminal that takes nothing is waited for 200 ms; the
 * next picture is drawn over what it took. */
bool screen_put(const char *lines);

/* In a child of fork: signals as before screen_open. */
void screen_forget(void);

#endif
