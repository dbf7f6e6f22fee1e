/* links: worker_rt/keeper/commit rendezvous/base/{err,rng} */
/*
 * The rule by which a step in pieces counts, played with ranks that seal, fail
 * and die at any moment: what was once whole on all ranks is whole until
 * something newer is. With mirrors each rank is a node of its own, which may be
 * lost: what all knew to be on two nodes is there then. The newest save that
 * was whole and compared stays, too. The ranks are those of keeper_pieces,
 * keeper_put and mirror, without their bytes.
 */
#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/rng.h"
#include "tests/lib/suite.h"
#include "worker_rt/keeper/commit.h"

#define RANKS_MAX 5
#define SLOTS     MEM_SLOTS_SHARED
#define MIRRORS   SNAPSHOT_SLOTS_MIRROR
#define SAVES_MAX 64 /* of a round */
#define SCHEDULES 100000
#define CHECK     4 /* so many saves, and ranks compare what they have */

/* Cheap where it holds: each ck_assert is a system call. */
#define HOLDS(what)                                                            \
    do {                                                                       \
        if (!(what))                                                           \
            ck_abort_msg("seed %llu: %s does not hold",                        \
                         (unsigned long long)p->seed, #what);                  \
    } while (0)

/* -- a rank ---------------------------------------------------------------- */

enum where {
    SETTLES,  /* the save before may still be sealed or written */
    WAITS,    /* it has said its words */
    HAS_HEARD /* it may take a slot */
};

struct rank {
    enum where where;
    bool dead;
    struct commit c;
    struct commit_label slots[SLOTS]; /* outlive it */
    struct commit_words words;
    int sealing; /* the slot; -1: none */
    int writing;
    int newest; /* sealed last */
    int64_t written;
    bool to_disk; /* of what is sealed */
    bool on_disk[SAVES_MAX];
    struct commit_label
        mirrors[MIRRORS];     /* of the rank before it; outlive it */
    int kept;                 /* the one that is needed; -1: none */
    int got;                  /* the one that came last; -1: none */
    int64_t ordered;          /* the save whose mirror may come from before */
    enum commit_mirror state; /* of what it sends itself */
};

struct play {
    struct rng rng;
    uint64_t seed;
    int world;
    int64_t round;
    int64_t step;
    bool seals_fail;  /* sometimes */
    bool mirrors;     /* each rank has one on the next */
    bool sends_fail;  /* sometimes */
    bool compares;    /* every few saves */
    int64_t trusted;  /* how often there was a trusted save */
    int64_t best;     /* the newest save that was whole so far, as a number */
    int64_t newest;   /* the newest for which a slot was taken */
    int64_t failures; /* of seals */
    int64_t skipped;  /* saves, so far .. */
    int64_t lost;     /* .. and nodes, whose images were loaded from mirrors */
    int last_lost;    /* of them; -1: none */
    int64_t base;     /* the save from which the round went on */
    int64_t given_up; /* the newest mirrored one, for a save to the disk */
    struct rank ranks[RANKS_MAX];
};

static int draw(struct play *p, int below)
{
    return (int)rng_below(&p->rng, (uint32_t)below);
}

/* Saves in the order of time. */
static int64_t number_of(const struct commit_label *l)
{
    return l->there ? l->round * SAVES_MAX + l->save : 0;
}

/* The newest save that is sealed on all ranks, told by the slots alone. */
static int64_t whole_now(const struct play *p)
{
    int64_t best = 0;
    for (int i = 0; i < SLOTS; i++) {
        const struct commit_label *l = &p->ranks[0].slots[i];
        int r = 0;
        while (r < p->world && commit_find(p->ranks[r].slots, l) >= 0)
            r++;
        if (r == p->world && number_of(l) > best)
            best = number_of(l);
    }
    return best;
}

static bool has(const struct commit_label *labels, int n, int64_t number)
{
    int i = 0;
    while (i < n && number_of(&labels[i]) != number)
        i++;
    return i < n;
}

/* The newest save that is left if that node is lost (-1: none); 0: nothing. */
static int64_t left_without(const struct play *p, int lost)
{
    for (int64_t s = p->newest; s > 0; s--) {
        int r = 0;
        for (; r < p->world; r++) {
            int next = (r + 1) % p->world;
            bool own = r != lost && has(p->ranks[r].slots, SLOTS, s);
            bool other =
                next != lost && has(p->ranks[next].mirrors, MIRRORS, s);
            if (!own && !other)
                break;
        }
        if (r == p->world)
            return s;
    }
    return 0;
}

/* -- its steps ------------------------------------------------------------- */

static void end_write(struct rank *r)
{
    if (r->writing < 0)
        return;
    r->written = r->slots[r->writing].save;
    r->on_disk[r->written] = true;
    r->writing = -1;
}

static void end_seal(struct play *p, struct rank *r)
{
    int i = r->sealing;
    if (i < 0)
        return;
    r->sealing = -1;
    if (p->seals_fail && draw(p, 8) == 0) {
        p->failures++;
        return;
    }
    r->slots[i] = (struct commit_label){.there = 1,
                                        .own = 1,
                                        .round = p->round,
                                        .save = r->c.save,
                                        .step = r->c.save,
                                        .who = 7};
    r->newest = i;
    if (r->to_disk)
        r->writing = i;
}

static void say(struct play *p, struct rank *r)
{
    bool disk = p->step % 3 == 0;
    end_seal(p, r);
    if (disk)
        end_write(r);
    r->words = commit_say(&r->c, p->step, disk, r->newest, r->written);
    r->words.ready = 1;
    r->words.mirror = p->mirrors ? r->state : COMMIT_MIRROR_OFF;
    r->words.minus_alone = -1;
    r->where = WAITS;
}

static struct commit_words combine(const struct play *p)
{
    struct commit_words all = p->ranks[0].words;
    for (int r = 1; r < p->world; r++) {
        int64_t a[COMMIT_WORDS], b[COMMIT_WORDS];
        memcpy(a, &all, sizeof(all));
        memcpy(b, &p->ranks[r].words, sizeof(all));
        for (size_t i = 0; i < COMMIT_WORDS; i++)
            a[i] = a[i] < b[i] ? a[i] : b[i];
        memcpy(&all, a, sizeof(all));
    }
    return all;
}

/* What is known to be on all disks is there. */
static void check_disks(const struct play *p, const struct commit *c)
{
    for (int r = 0; c->on_disk >= 0 && r < p->world; r++)
        HOLDS(p->ranks[r].on_disk[c->on_disk]);
}

/* A part of a transfer: its receiver waits until it knows of it, too. */
static void send(struct play *p, int from)
{
    struct rank *r = &p->ranks[from], *to = &p->ranks[(from + 1) % p->world];
    struct commit_save *s = &r->c.sent;
    if (r->state != COMMIT_MIRROR_BUSY || to->dead || to->ordered < s->number)
        return;
    int i = to->kept == 0 ? 1 : 0;
    if (has(&to->mirrors[i], 1, number_of(&r->slots[s->slot]))) {
        to->got = i; /* it answers */
        r->state = COMMIT_MIRROR_DONE;
        return;
    }
    memset(&to->mirrors[i], 0, sizeof(to->mirrors[i]));
    if (p->sends_fail && draw(p, 4) == 0)
        r->state = COMMIT_MIRROR_FREE;
    else if (draw(p, 2) == 0)
        to->mirrors[i] = r->slots[s->slot];
}

/* What all have said of mirrors. */
static void hear_of_mirrors(struct rank *r, const struct commit_words *all)
{
    if (all->mirror > COMMIT_MIRROR_BUSY) {
        if (all->mirror == COMMIT_MIRROR_DONE && r->got >= 0)
            r->kept = r->got;
        r->got = -1;
        r->state = COMMIT_MIRROR_FREE;
    }
    if (!commit_send(&r->c))
        return;
    r->ordered = r->c.sent.number;
    r->state = r->c.sent.slot < 0 ? COMMIT_MIRROR_DONE : COMMIT_MIRROR_BUSY;
}

static void take_slot(struct play *p, struct rank *r)
{
    int i = -1;
    hear_of_mirrors(r, &r->words);
    int64_t mirrored = p->round * SAVES_MAX + r->c.mirrored.number;
    if (p->compares && r->c.save % CHECK == 0)
        commit_agreed(&r->c);
    if (commit_make_room(&r->c, r->words.disk))
        i = commit_pick(&r->c, r->slots, r->writing);
    if (r->c.mirrored.number < 0 && mirrored > p->given_up)
        p->given_up = mirrored;
    HOLDS(i >= 0 || (p->mirrors && !r->words.disk));
    if (i < 0) {
        p->skipped++;
        commit_began(&r->c, -1, r->c.save, false);
        r->where = SETTLES;
        return;
    }
    HOLDS(i != r->writing && i != r->sealing);
    HOLDS(r->state != COMMIT_MIRROR_BUSY || i != r->c.sent.slot);
    if (i == r->newest)
        r->newest = -1;
    memset(&r->slots[i], 0, sizeof(r->slots[i]));
    r->sealing = i;
    r->to_disk = r->words.disk;
    commit_began(&r->c, i, r->c.save, r->to_disk);
    int64_t number = p->round * SAVES_MAX + r->c.save;
    p->newest = number > p->newest ? number : p->newest;
    r->where = SETTLES;
}

/* -- all of them ----------------------------------------------------------- */

/* All have said their words, and nobody has heard them yet: some do, or all. A
 * rank that died after its words does not keep others from hearing them. */
static void hear(struct play *p, bool all)
{
    const struct commit_words words = combine(p);
    for (int i = 0; i < p->world; i++) {
        struct rank *r = &p->ranks[i];
        r->where = SETTLES;
        if (r->dead || (!all && draw(p, 2) == 0)) {
            r->dead = true; /* or its communicator is broken: it ends, too */
            continue;
        }
        HOLDS(commit_hear(&r->c, &words) == COMMIT_GOES_ON);
        r->words = words;
        check_disks(p, &r->c);
        r->where = HAS_HEARD;
    }
}

static bool all_wait(const struct play *p)
{
    int r = 0;
    while (r < p->world && p->ranks[r].where == WAITS)
        r++;
    return r == p->world;
}

/* The newest save that a rank knows to be on two nodes; 0: none. */
static int64_t promised_now(const struct play *p)
{
    int64_t best = 0;
    for (int r = 0; r < p->world; r++) {
        const struct commit_save *m = &p->ranks[r].c.mirrored;
        int64_t number = p->round * SAVES_MAX + m->number;
        if (m->number > 0 && number > p->given_up && number > best)
            best = number;
    }
    return best;
}

/* The newest save that a rank trusts is on all of them. */
static void check_trusted(struct play *p)
{
    int64_t best = 0;
    for (int r = 0; r < p->world; r++) {
        int64_t number = p->ranks[r].c.trusted.number;
        best = number > best ? number : best;
    }
    for (int r = 0; best > 0 && r < p->world; r++)
        HOLDS(has(p->ranks[r].slots, SLOTS, p->round * SAVES_MAX + best));
    p->trusted += best > 0;
}

/* What was whole once, or something newer, is whole. Where no seal failed, at
 * most the save that some rank has begun is lost. */
static void check(struct play *p)
{
    int64_t now = whole_now(p);
    check_trusted(p);
    HOLDS(now >= p->best);
    p->best = now;
    if (p->failures == 0 && p->skipped == 0 && p->newest % SAVES_MAX > 1)
        HOLDS(now >= p->newest - 1);
    if (!p->mirrors)
        return;
    int64_t promised = promised_now(p);
    for (int lost = 0; promised > 0 && lost < p->world; lost++)
        HOLDS(left_without(p, lost) >= promised);
    /* Until then the same node may be lost again. */
    if (promised == 0 && p->given_up < p->round * SAVES_MAX)
        HOLDS(left_without(p, p->last_lost) >= p->base);
}

/* One thing happens. */
static void step(struct play *p)
{
    struct rank *r = &p->ranks[draw(p, p->world)];
    int what = draw(p, p->mirrors ? 6 : 4);
    if (r->dead)
        return;
    if (what > 3)
        send(p, (int)(r - p->ranks));
    else if (what == 0)
        end_write(r);
    else if (what == 1)
        end_seal(p, r);
    else if (r->where == SETTLES)
        say(p, r);
    else if (r->where == HAS_HEARD)
        take_slot(p, r);
}

/* With mirrors, ranks load what lies in any slot of any node. */
static struct commit_label find_base(const struct play *p)
{
    struct commit_label labels[RANKS_MAX][SLOTS], whole;
    for (int r = 0; r < p->world; r++)
        memcpy(labels[r], p->ranks[r].slots, sizeof(labels[r]));
    whole =
        commit_common((const struct commit_label(*)[SLOTS])labels, p->world);
    HOLDS(number_of(&whole) == whole_now(p));
    int64_t left = p->mirrors ? left_without(p, -1) : 0;
    if (left <= number_of(&whole))
        return whole;
    return (struct commit_label){.there = 1,
                                 .own = 1,
                                 .round = left / SAVES_MAX,
                                 .save = left % SAVES_MAX,
                                 .step = left % SAVES_MAX,
                                 .who = 7};
}

/* The workers of the next round find what is in the slots. */
static void begin_round(struct play *p)
{
    struct commit_label whole = find_base(p);
    p->round++;
    p->step = 1;
    p->base = number_of(&whole);
    for (int i = 0; i < p->world; i++) {
        struct rank *r = &p->ranks[i];
        r->where = SETTLES;
        r->dead = r->to_disk = false;
        r->sealing = r->writing = r->newest = r->kept = r->got = -1;
        r->written = r->ordered = 0;
        r->state = COMMIT_MIRROR_FREE;
        memset(r->on_disk, 0, sizeof(r->on_disk));
        commit_init(&r->c);
        if (whole.there)
            commit_take_over(&r->c, commit_find(r->slots, &whole), whole.step);
        for (int m = 0; whole.there && m < MIRRORS; m++)
            if (number_of(&r->mirrors[m]) == p->base)
                r->kept = m;
    }
}

/* One round, until a rank has died and the others have ended where they were.
 */
static void play_round(struct play *p)
{
    int dies = 1 + draw(p, 120), ends = dies + draw(p, 12);
    begin_round(p);
    for (int i = 0; i < ends; i++) {
        if (i == dies)
            p->ranks[draw(p, p->world)].dead = true;
        if (all_wait(p)) {
            hear(p, i < dies);
            p->step++;
        }
        step(p);
        check(p);
    }
}

/* Several rounds in the same memory; now and then a node comes with an empty
 * one, and then nothing is whole. */
TEST_LOOP(test_commit_what_was_whole_stays_until_something_newer_is, 0, 3)
{
    int64_t wholes = 0, trusted = 0;
    for (uint64_t seed = 1; seed <= SCHEDULES / 5; seed++) {
        struct play p = {
            .seed = seed, .seals_fail = _i > 0, .compares = _i == 2};
        rng_init(&p.rng, seed);
        p.world = 1 + draw(&p, RANKS_MAX);
        for (int i = 0; i < 5; i++) {
            if (draw(&p, 8) == 0) {
                memset(p.ranks[0].slots, 0, sizeof(p.ranks[0].slots));
                p.best = 0;
                p.failures = 1;
            }
            play_round(&p);
        }
        wholes += p.best > 0;
        trusted += p.trusted > 0;
    }
    ck_assert_int_eq(trusted > SCHEDULES / 10, _i == 2);
    ck_assert_int_gt(wholes, SCHEDULES / 10); /* the play was about something */
}

/* A node comes back with nothing; the others have what was promised. */
static void lose_node(struct play *p)
{
    int64_t promised = promised_now(p);
    p->last_lost = draw(p, p->world);
    struct rank *r = &p->ranks[p->last_lost];
    memset(r->slots, 0, sizeof(r->slots));
    memset(r->mirrors, 0, sizeof(r->mirrors));
    struct commit_label base = find_base(p);
    HOLDS(number_of(&base) >= promised);
    p->lost += promised > 0;
    p->best = 0;
    p->failures = 1;
}

TEST_LOOP(test_commit_what_is_mirrored_outlives_a_node, 0, 5)
{
    int64_t lost = 0, skipped = 0;
    for (uint64_t seed = 1; seed <= SCHEDULES / 20; seed++) {
        struct play p = {.seed = seed,
                         .mirrors = true,
                         .sends_fail = _i % 2 == 1,
                         .seals_fail = _i / 2 % 2 == 1,
                         .compares = _i > 3,
                         .last_lost = -1};
        rng_init(&p.rng, seed);
        p.world = 2 + draw(&p, RANKS_MAX - 1);
        for (int i = 0; i < 5; i++) {
            play_round(&p);
            p.last_lost = -1;
            if (draw(&p, 2) == 0)
                lose_node(&p);
        }
        lost += p.lost;
        skipped += p.skipped;
    }
    ck_assert_int_gt(lost, 300); /* the play was about something */
    ck_assert_int_gt(skipped, 300);
}

/* -- by hand --------------------------------------------------------------- */

static struct commit_words agreed(int64_t step, bool sealed)
{
    return (struct commit_words){
        .ready = 1, .step = step, .minus_step = -step, .sealed = sealed};
}

/* A rank that cannot begin, and ranks that mean different things, end the save;
 * what the words say of the save before holds all the same. */
TEST(test_commit_refuses_what_ranks_do_not_agree_about)
{
    struct commit c;
    struct commit_words w = agreed(5, true);
    commit_init(&c);
    commit_began(&c, 2, 4, false);
    w.ready = 0;
    ck_assert_int_eq(commit_hear(&c, &w), COMMIT_NOT_READY);
    ck_assert_int_eq(c.whole.slot, 2);
    w = agreed(5, false);
    w.minus_step = -6;
    ck_assert_int_eq(commit_hear(&c, &w), COMMIT_STEPS_DIFFER);
    w = agreed(5, false);
    w.minus_disk = -1;
    ck_assert_int_eq(commit_hear(&c, &w), COMMIT_DISKS_DIFFER);
    ck_assert_int_eq(c.save, 0);
    w = agreed(5, false);
    w.minus_save = -3; /* another rank has counted one that failed here */
    ck_assert_int_eq(commit_hear(&c, &w), COMMIT_GOES_ON);
    ck_assert_int_eq(c.save, 4);
    ck_assert_int_eq(c.whole.slot, 2);
}

/* Whether there are mirrors or not, what all nodes have is on two of them; what
 * one alone has is not, if none are made. */
TEST(test_commit_without_mirrors_copies_are_on_two_nodes)
{
    struct commit c;
    struct commit_words w = agreed(5, true);
    w.mirror = COMMIT_MIRROR_OFF;
    commit_init(&c);
    commit_began(&c, 2, 4, false);
    ck_assert_int_eq(commit_hear(&c, &w), COMMIT_GOES_ON);
    ck_assert_int_eq(c.mirrored.step, 4);
    commit_began(&c, 1, 5, false);
    w = agreed(6, true);
    w.mirror = COMMIT_MIRROR_OFF;
    w.minus_alone = -1;
    ck_assert_int_eq(commit_hear(&c, &w), COMMIT_GOES_ON);
    ck_assert_int_eq(c.whole.step, 5);
    ck_assert_int_eq(c.mirrored.step, -1);
}

/* The newest of each rank need not be what all have: two saves failed on one
 * rank each. */
TEST(test_commit_common_is_what_every_rank_has)
{
    const struct commit_label a = {1, 1, 2, 5, 50, 9}, b = {1, 1, 2, 6, 60, 9},
                              c = {1, 1, 2, 7, 70, 9};
    const struct commit_label labels[2][SLOTS] = {{a, c}, {b, a}};
    struct commit_label found = commit_common(labels, 2);
    ck_assert_int_eq(found.step, 50);
    const struct commit_label nothing[2][SLOTS] = {{a}, {b}};
    ck_assert(!commit_common(nothing, 2).there);
    ck_assert_int_eq(commit_find(nothing[0], &nothing[0][1]), -1);
}

/* The oldest goes first; what another run left before all of ours. */
TEST(test_commit_pick_takes_the_oldest)
{
    struct commit c;
    struct commit_label labels[SLOTS] = {
        {1, 1, 1, 9, 9, 1}, {1, 0, 8, 9, 9, 2}, {1, 1, 2, 1, 1, 1}};
    commit_init(&c);
    ck_assert_int_eq(commit_pick(&c, labels, -1), 1);
    ck_assert_int_eq(commit_pick(&c, labels, 1), 0);
    c.whole = (struct commit_save){.slot = 0};
    ck_assert_int_eq(commit_pick(&c, labels, 1), 2);
    labels[2].there = 0;
    c.whole = (struct commit_save){.slot = 1};
    ck_assert_int_eq(commit_pick(&c, labels, -1), 2);
}

/* A trusted save takes no slot from the others: there is one more then. */
TEST(test_commit_pick_leaves_what_is_trusted)
{
    struct commit c;
    struct commit_label labels[SLOTS] = {
        {1, 1, 1, 1, 1, 1}, {1, 1, 1, 2, 2, 1}, {1, 1, 1, 3, 3, 1}};
    struct commit_words w = agreed(4, true);
    commit_init(&c);
    w.minus_save = -3;
    ck_assert_int_eq(commit_hear(&c, &w), COMMIT_GOES_ON);
    commit_agreed(&c);
    ck_assert_int_eq(commit_pick(&c, labels, -1), 0);
    commit_began(&c, 0, 4, false);
    labels[0].save = labels[0].step = 4;
    w = agreed(5, true);
    w.minus_save = -4;
    ck_assert_int_eq(commit_hear(&c, &w), COMMIT_GOES_ON);
    ck_assert_int_eq(c.trusted.step, 4);
    ck_assert_int_eq(commit_pick(&c, labels, -1), 3);
    commit_distrust(&c);
    ck_assert_int_eq(c.trusted.step, 4);
    ck_assert_int_eq(c.whole.slot, -1);
    commit_give_up_trusted(&c);
    ck_assert_int_eq(commit_pick(&c, labels, -1), 1);
}

SUITE("commit", "rule", .limit_s = 120)
