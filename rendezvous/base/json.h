/*
 * base/json: writes JSON into a buffer, whatever the texts are made of. Nesting
 * and commas are kept here; a value inside an object has a key, one inside a
 * list has NULL. What comes from a peer is escaped: control characters as
 * \n or \u00XX, what is no UTF-8 as U+FFFD.
 */
#ifndef RENDEZVOUS_BASE_JSON_H
#define RENDEZVOUS_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/buf.h"

#define JSON_ESCAPE_SIZE 8 /* of the longest one, and its NUL */

struct json {
    struct buf *out;
    bool full;  /* the buffer's limit was reached: what is there is no JSON */
    bool comma; /* something stands before, on this level */
    bool lines; /* for people: each value on a line of its own; the caller's */
    int depth;
};

/* Borrows `out` as long as the writer is used. */
void json_init(struct json *j, struct buf *out);

void json_open(struct json *j, const char *key, char bracket); /* '{', '[' */
void json_close(struct json *j, char bracket);                 /* '}', ']' */
void json_text(struct json *j, const char *key, const char *text);
void json_int(struct json *j, const char *key, int64_t number);
void json_bool(struct json *j, const char *key, bool value);
void json_null(struct json *j, const char *key);

/* A span of microseconds as seconds with three decimals, or with six; below 0
 * is 0. */
void json_seconds(struct json *j, const char *key, int64_t us);
void json_micros(struct json *j, const char *key, int64_t us);

/* -- for writers of their own ---------------------------------------------- */

/* How many bytes at the front of `text` stand for themselves in a string. */
size_t json_plain(const char *text);

/*
 * What is written instead of the character where json_plain stopped, which is
 * not the NUL. Returns the bytes of it; 0: there is no UTF-8, and `esc` is
 * U+FFFD. It stands for one byte then, unless the caller has a better idea.
 */
size_t json_escape(const char *text, char esc[JSON_ESCAPE_SIZE]);

#endif
