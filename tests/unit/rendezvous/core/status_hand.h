/*
 * tests/unit/rendezvous/core/status_hand: what is shown of the server's core,
 * asked as by HTTP, with nodes that are played by hand. Each test begins with
 * an empty server, at 1000 s; node n comes on connection n.
 */
#ifndef STATUS_HAND_H
#define STATUS_HAND_H

#include <cjson/cJSON.h>
#include <check.h>
#include <stdbool.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/status.h"
#include "rendezvous/http/http_routes.h"

#define UNIX_US (1700000000 * MONO_S)

extern struct rdzv *rdzv;
extern int64_t now_us;
extern struct msg_join like;
extern struct status_counts counts;
extern bool token, open_metrics, busy;
extern cJSON *shown; /* the last /status */
extern struct httpd_answer answer;
void step(const struct rdzv_event *ev);
void say(int conn, const struct msg *m);
struct msg make_join(int conn, const char *name);
void join(int conn, const char *name);
void new_core(void);
void setup(void);
void teardown(void);
extern const char *asked_host; /* NULL: the request has none */
extern const char *accepted;
int get_by(const char *target, bool trusted, size_t room);
const char *text(void);
int get(const char *target);
void get_status(const char *target);
const cJSON *field(const cJSON *obj, const char *name);
double number(const cJSON *obj, const char *name);
const char *string(const cJSON *obj, const char *name);
const cJSON *shown_run(int i);
const cJSON *shown_node(int run, int i);
void fail_worker(int conn, int64_t round);
void ready(int conn, int64_t round);

#define same_number(obj, name, want)                                           \
    ck_assert_msg(number(obj, name) == (want), "%s is %g", name,               \
                  number(obj, name))
#define same_string(obj, name, want) ck_assert_str_eq(string(obj, name), want)

#endif
