/*
 * Where a run may begin that has a list of endpoints and no round yet, as a model:
 * three servers, one at each address, none of which knows which others live. Each
 * may have as many nodes as a first round needs (twice nodes_min is no more than
 * nodes_max). That a message is lost, or a server cut off, frozen or dead, is that
 * nothing is scheduled. scripts/model checks it.
 *
 * What is asked: is there never more than one first round, that is, one instance
 * of the run? Two instances find each other later, and the younger one gives way;
 * but its nodes have worked in vain.
 *
 *   -DN=3             the rule: the first address alone begins
 *   -DMAJORITY        any address begins that more than half of the addresses have
 *                     voted for, itself among them; the first one, too
 * Each of these must be found:
 *   -DOTHERS_TOO      the first address alone, and others if more than half of the
 *                     addresses have voted for them
 *   -DNO_VOTES        with -DMAJORITY: others only answer that they have no run
 *   -DRESTARTS=1      a server is started again, and has forgotten all: with
 *                     either rule
 *
 * So others can only be let in if the first address may not begin alone any more:
 * a list of which one address is up would never begin. And a vote without a disk
 * is worth no more than the server's life.
 */
#ifndef RESTARTS
#define RESTARTS 0
#endif
#ifndef N
#define N       3
#endif
#define BIT(i)  (1 << (i))
#define MOST(a) (((a) & 1) + (((a) >> 1) & 1) + (((a) >> 2) & 1) > N / 2)

bool knows[N];    /* that the run has begun, here or elsewhere */
byte vote[N];     /* for which server, + 1; 0: for none */
byte votes[N];    /* for it, as bits */
byte begun;       /* first rounds, which only the model can count */
byte restarts = RESTARTS;

#ifdef MAJORITY
#define MAY_BEGIN(s) MOST(votes[s] | BIT(s))
#else
#ifdef OTHERS_TOO
#define MAY_BEGIN(s) ((s) == 0 || MOST(votes[s] | BIT(s)))
#else
#define MAY_BEGIN(s) ((s) == 0)
#endif
#endif

/* Server s asks t, and hears the answer. */
inline ask(s, t)
{
    if
    :: knows[t] -> knows[s] = true
    :: !knows[t] && knows[s] -> knows[t] = true
#ifdef NO_VOTES
    :: !knows[t] && !knows[s] -> votes[s] = votes[s] | BIT(t)
#else
    :: !knows[t] && !knows[s] && (vote[t] == 0 || vote[t] == s + 1) ->
       vote[t] = s + 1; votes[s] = votes[s] | BIT(t)
#endif
    :: else
    fi
}

/* It votes for itself, unless it has voted already. */
inline begin(s)
{
#ifndef NO_VOTES
    vote[s] = s + 1;
#endif
    knows[s] = true;
    begun++;
    assert(begun == 1)
}

proctype server(byte s)
{
end_idle:
    do
    :: d_step { !knows[s] && MAY_BEGIN(s) &&
        (vote[s] == 0 || vote[s] == s + 1) -> begin(s) }
    :: d_step { ask(s, (s + 1) % N) }
    :: d_step { ask(s, (s + 2) % N) }
    :: d_step { restarts > 0 ->
        restarts--; knows[s] = false; vote[s] = 0; votes[s] = 0 }
    od
}

init
{
    atomic { run server(0); run server(1); run server(2) }
}
