#include "rendezvous/core/inner/authority/voters.h"

#include <string.h>

#include "rendezvous/base/err.h"

int voters_find(const struct voters *v, const char *agent)
{
    for (int i = 0; i < v->n; i++)
        if (strncmp(v->id[i], agent, MSG_VOTER_LEN) == 0)
            return i;
    return -1;
}

void voters_add(struct voters *v, const char *agent)
{
    ddp_assert(v->n < MSG_VOTERS_MAX);
    char *id = v->id[v->n++];
    size_t len = strnlen(agent, MSG_VOTER_LEN);
    memset(id, 0, MSG_VOTER_LEN + 1);
    memcpy(id, agent, len);
}

static bool is_id_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

bool voters_may_add(const char *agent)
{
    for (int i = 0; i < MSG_VOTER_LEN; i++)
        if (!is_id_char(agent[i]))
            return false;
    return true;
}

/* The length of the id that the text begins with; 0: it is none. */
static size_t id_length(const char *text)
{
    size_t len = 0;
    while (is_id_char(text[len]))
        len++;
    return len == MSG_VOTER_LEN && text[len] == ' ' ? len : 0;
}

bool voters_parse(struct voters *v, const char *text)
{
    *v = (struct voters){.n = 0};
    while (*text != '\0') {
        size_t len = id_length(text);
        if (len == 0 || v->n == MSG_VOTERS_MAX || voters_find(v, text) >= 0) {
            v->n = 0;
            return false;
        }
        voters_add(v, text);
        text += len + 1;
    }
    return true;
}

void voters_print(const struct voters *v, char text[VOTERS_TEXT_SIZE])
{
    for (int i = 0; i < v->n; i++) {
        size_t len = strlen(v->id[i]);
        memcpy(text, v->id[i], len);
        text[len] = ' ';
        text += len + 1;
    }
    *text = '\0';
}
