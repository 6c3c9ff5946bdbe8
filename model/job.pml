/* One job, two workers, a client, a signaller and a reaper, and a network that loses answers.
 *
 * The server is its transactions: each call is one atomic step on what is stored, and what is stored
 * survives. A crash of the server is a call that was carried out, or was not, and whose answer is
 * lost either way; whoever called calls again with the same key. A crash of a worker is a worker
 * that forgets. Time is not counted: a lease may expire at any moment, which covers every clock.
 *
 * What may follow what is not said here. machine.pml is made from `pawl machine job`, the table that
 * the program itself looks moves up in: MAY_e(s) says whether event e is legal in state s, and
 * LEADS_e(s, t) whether it can lead to t. Every move below is checked against it.
 *
 * BROKEN_x makes a server with one mistake; each must be found (scripts/model). WALK has every call
 * that reaches the server printed, with what it was answered and what is stored then, so that a walk
 * can be replayed on the real stores (tests/model/test_walks.sh). */
#include "machine.pml"

#define WORKERS 2
#define FAILURES_MAX 3
#define ATTEMPTS_MAX 7 /* more than can be: an attempt ends by a report, a wait or an expiry */

/* ---- what is stored ---- */

byte status = S_none;
byte attempt;       /* the number in the token of the lease */
bool live;          /* there is a lease */
byte failures;
bool waited;        /* a job waits once here */
bool signal_stored; /* a signal came before the wait for it */
bool signal_known;  /* by its key */
byte completed_by;  /* the attempt whose result was accepted */

/* ---- what is watched ---- */

byte created;              /* jobs that the client's one submission has made */
byte results;              /* results accepted */
byte signals;              /* signals that the signaller's one call has made */
byte given[ATTEMPTS_MAX];  /* workers that an attempt was given to */
bool taken_from_stale;     /* a result, from one whose lease was gone */
bool told_submitted;
bool told_completed;
bool told_signalled;

#define ENDED (status == S_completed || status == S_failed || status == S_cancelled || \
               status == S_dead_lettered)

/* A move that the table does not have is a mistake of this model. */
#ifdef BROKEN_END
#define MOVE(event, to) status = to
#else
#define MOVE(event, to) assert(LEADS_##event(status, to)); status = to
#endif

#ifdef BROKEN_FENCE
#define HOLDS(token) (status == S_running)
#else
#define HOLDS(token) (live && attempt == token)
#endif

#ifdef BROKEN_REPEAT
#define KNOWN false
#else
#define KNOWN signal_known
#endif

#ifdef WALK
#define SAY(call, token, answer)                                                                   \
    printf("walk %e %d %e %d %d %d\n", call, token, answer, status, attempt, failures);
mtype = {submit, signal, claim, complete, fail, wait, expire, ok, stale, ended}
#else
#define SAY(call, token, answer)
#endif

/* Another attempt, or the end of them. */
inline give_up()
{
    live = false;
    failures++;
    if
    :: failures < FAILURES_MAX -> MOVE(job_requeued, S_retrying)
    :: else -> MOVE(job_dead_lettered, S_dead_lettered)
    fi
}

/* ---- those who call ---- */

active proctype client()
{
    bool answered;
    do
    :: !answered ->
        if
        :: atomic {
#ifdef BROKEN_ACK
               answered = true; told_submitted = true; /* and the commit may never come */
               if
               :: created == 0 -> created++; MOVE(job_created, S_queued)
               :: true
               fi
#else
               if
#ifdef BROKEN_KEY
               :: status == S_none || status == S_retrying -> created++;
                  if
                  :: status == S_none -> MOVE(job_created, S_queued)
                  :: else
                  fi
#else
               :: created == 0 -> created++; MOVE(job_created, S_queued)
#endif
               :: else /* the key is known: the same answer */
               fi;
               SAY(submit, 0, ok)
               if
               :: answered = true; told_submitted = true
               :: true /* the answer is lost */
               fi
#endif
           }
        :: true /* the call is lost */
        fi
    :: answered -> break
    od
}

active proctype signaller()
{
    bool answered;
    do
    :: !answered && created > 0 ->
        if
        :: atomic {
               if
               :: KNOWN /* by its key: the same answer */
               :: !KNOWN && ENDED -> signal_known = true
               :: !KNOWN && !ENDED && (status == S_waiting || status == S_parked) ->
                  signal_known = true; signals++;
                  MOVE(wait_completed, S_queued)
               :: !KNOWN && !ENDED && status != S_waiting && status != S_parked ->
                  signal_known = true; signals++;
#ifndef BROKEN_SIGNAL
                  signal_stored = true
#endif
               fi;
               SAY(signal, 0, (signals > 0 -> ok : ended))
               if
               :: answered = true; told_signalled = true
               :: true
               fi
           }
        :: true
        fi
    :: answered -> break
    od
}

active [WORKERS] proctype worker()
{
    byte token;
    bool answered;
idle:
    token = 0;
    if
    :: atomic {
           MAY_job_leased(status) && !live && attempt < ATTEMPTS_MAX - 1 ->
#ifdef BROKEN_NUMBER
           attempt = 1;
#else
           attempt++;
#endif
           MOVE(job_leased, S_leased);
           MOVE(job_running, S_running);
           live = true;
           given[attempt]++;
           SAY(claim, attempt, ok)
           if
           :: token = attempt
           :: true /* the answer is lost: nobody has this lease, and it will expire */
           fi
       }
    :: atomic { ENDED -> goto gone }
    fi;
    if
    :: token == 0 -> goto idle
    :: token != 0
    fi;
    /* At work, for as long as it takes; then one of these, said until it is answered. */
    answered = false;
    if
    :: true -> do
       :: !answered ->
          atomic {
              if
              :: HOLDS(token) ->
                 results++; completed_by = token;
                 taken_from_stale = !live || attempt != token;
#ifndef BROKEN_END
                 live = false;
#endif
                 MOVE(job_completed, S_completed);
                 SAY(complete, token, ok)
                 answered = true
              :: !HOLDS(token) && completed_by == token && status == S_completed ->
                 SAY(complete, token, ok)
#ifdef BROKEN_RESULT
                 results++;
#endif
                 answered = true /* said before: the same answer */
              :: !HOLDS(token) && !(completed_by == token && status == S_completed) ->
                 SAY(complete, token, stale)
                 goto idle
              fi;
              if
              :: told_completed = true
              :: answered = false
              fi
          }
       :: answered -> break
       od
    :: true -> atomic {
           if
           :: HOLDS(token) -> give_up();
              SAY(fail, token, ok)
              skip
           :: else ->
              SAY(fail, token, stale)
              skip
           fi
       }
    :: true -> atomic {
           if
           :: HOLDS(token) && !waited ->
              waited = true; live = false;
              MOVE(job_waiting, S_waiting);
              if
              :: signal_stored -> signal_stored = false; MOVE(wait_completed, S_queued)
              :: else
              fi;
              SAY(wait, token, ok)
              skip
           :: !HOLDS(token) ->
              SAY(wait, token, stale)
              skip
           :: HOLDS(token) && waited
           fi
       }
    :: true /* it crashes, and knows nothing any more */
    fi;
    goto idle;
gone:
    skip
}

active proctype reaper()
{
    do
    :: atomic {
           live ->
#ifdef BROKEN_REAPER
           live = false /* and the job stays as it is */
#else
           give_up();
           SAY(expire, 0, ok)
           skip
#endif
       }
    :: atomic { ENDED -> break }
    od
}

/* ---- what must hold ---- */

ltl one_job { [] (created <= 1) }
ltl one_result { [] (results <= 1) }
ltl only_the_holder { [] !taken_from_stale }
ltl one_owner { [] (given[1] <= 1 && given[2] <= 1 && given[3] <= 1 && given[4] <= 1) }
ltl submitted_is_there { [] (told_submitted -> status != S_none) }
ltl completed_stays { [] (told_completed -> status == S_completed) }
ltl end_is_the_end { [] (ENDED -> ! <> !ENDED) }
ltl one_signal { [] (signals <= 1) }
/* Everything ends once somebody has submitted it: a wait whose signal was taken in, too. */
ltl everything_ends { [] (told_submitted && told_signalled -> <> ENDED) }
