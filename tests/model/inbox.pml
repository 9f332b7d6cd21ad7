/* The protocol between threads that post timers and the loop that runs them: two producers, one loop.

   Each part says what it stands for. A step is one atomic operation of the program, with what the same thread does next
   that no other thread can see. SPIN takes the steps of all threads in every order there is, but each is seen by all at
   once: it knows no weak memory. That a thread sees what it must see is argued edge by edge in
   include/tickwheel/uv/detail/inbox.hpp, tested under ThreadSanitizer, and explored in tests/weak_memory.

   Where a run looks (`check` has the runs):
     HELD      the loop is held for ever, and nobody closes: only a wakeup makes an operation end
     ENDS      each producer has a hold and releases it last; the service is closed once the loop has ended by itself
     neither   the service is closed at any moment, in a handler too

   What a run leaves out or does wrong, and must then fail:
     NO_CLOSED_CHECK      a push does not look whether the inbox is closed
     WAKE_BEFORE_PUSH     the loop looks, finds nothing and sleeps, and then comes the push
     NEVER_ASLEEP         a pass that has nothing left does not let the inbox sleep again: the loop waits, and nobody wakes
     ASLEEP_UNSEEN        it does so without a look at what was pushed since it took
     NO_RECHECK           Whoever clears a flag must look once more for what came before it was cleared. Here the flag
                          is the handle's `pending`: libuv clears it, then calls back, and the pass that this begins
                          takes the inbox. That is the second look. Skipped: the loop takes what it was woken for, lets
                          the inbox sleep, clears `pending`, and leaves it at that. A push in between found the inbox
                          asleep and the flag set.
     NO_CARRY             another look that is owed: a pass that has taken more than it may run asks for no other pass.
                          The inbox stays awake, and nobody wakes for what was taken.
     NO_NOTICE            a timer cancelled in the wheel stays there
     FIRES_CANCELLED      the wheel runs what it finds without the swap armed -> fired
     WAKE_WITHOUT_MUTEX   between the look at the driver and the send the handle is closed
     RELEASE_IS_SILENT    the last release of a hold does not wake
     HOLDS_READ_LATE      the pass takes the inbox, then sees that nobody holds: what was posted in between is left
     LINK_READ_LATE       the loop reads a node's link after queued -> armed, when it may serve a notice: what came
                          behind the node is lost
     NOT_ABANDONED        a cancelled node that came due leaves the wheel without a note that it did. If its notice
                          is refused, it is in no list that close looks at, and leaks. If not, its callable is destroyed
                          twice.
     ALL_ABANDONED        who finds a notice refused always frees: the node may be in the wheel, for close to free
     ABANDONED_FREED      a cancelled node that came due is freed by the loop, as if no notice were to come
     NO_EXTRA_REFERENCE   the destructor of a cancelled callable that came due closes the service. Close takes the notice, and
                          frees the operation in which the destructor still runs.
     CALLABLE_FORGOTTEN   a cancelled callable is not destroyed when its operation is taken
     WHEEL_CLEARED_FIRST  close clears the wheel, cancelled nodes included, while notices can still be pushed: what it
                          frees may be in the inbox, or about to be  */

/* NODES:  addresses. A post that finds none free answers UV_ENOMEM; what is freed is used again.
   POSTS:  of the first producer; the second posts once.
   OTHERS: wakeups of the loop by other handles, at any time.
   SHARED: the second producer may cancel what is the first's.
   BURST:  everything is due when it is delivered. */
#define SIZE (NODES + 1)
#define THREADS 3

/* --- a node: an operation that was posted ------------------------------------------------------------------------- */

#define LIVE(n) (refs[n] > 0)

/* The one atomic state that decides who ends it. `abandoned` is cancelled, and out of the wheel before its notice came:
   the loop's reference is the notice's. */
mtype = { none, queued, armed, fired, cancelled, abandoned, shut };
mtype = { now, soon, far };                                 /* due when delivered, later, or not while we look */

mtype state[SIZE] = none;
mtype due[SIZE] = now;
byte next[SIZE];           /* the inbox's link, and then that of the loop's own list */
byte refs[SIZE];           /* one for the remote_timer, one for the loop, which goes with the node from list to list */
bool in_wheel[SIZE];
bool offered[SIZE];        /* a remote_timer refers to it: whoever sees it may cancel */

/* What the program does not have: the bookkeeping of the proof. */
mtype outcome[SIZE] = none;    /* fired: its handler ran; cancelled: by the user; shut: counted in remote_cancelled */
bool accepted[SIZE];
bool waiting[SIZE];            /* accepted, and not yet delivered */
bool callable[SIZE];           /* accepted, and the loop has not destroyed the callable */
byte poster[SIZE];
byte turn[SIZE];               /* the poster's first operation, or its second */

inline ends(n, how) {
  assert(outcome[n] == none);       /* none runs twice, none both runs and is cancelled */
  outcome[n] = how
}

/* Lets go of one reference; the last one frees. */
inline drop_now(n) {
  assert(LIVE(n));                /* freed once */
  refs[n]--;
  if
  :: refs[n] == 0 ->
    assert(!in_wheel[n] && !waiting[n]);        /* no list points to what is freed */
    assert(!accepted[n] || outcome[n] != none); /* what was accepted has ended in one way */
    assert(!callable[n]);                       /* and the loop has destroyed its callable */
    accepted[n] = false; outcome[n] = none; poster[n] = 0; turn[n] = 0;
    state[n] = none; due[n] = now; next[n] = 0
  :: else
  fi
}
inline drop(n) { d_step { drop_now(n) } }

/* --- the inbox: a stack that is taken whole ----------------------------------------------------------------------- */

/* The newest that was pushed, or one of three marks. Taking leaves the inbox awake; once a pass has found nothing more it
   is asleep again. */
#define ASLEEP 0
#define AWAKE 254
#define CLOSED 255
#define HAS_NONE (head == ASLEEP || head == AWAKE)

mtype = { wakes, later, refused };

byte head = ASLEEP;

/* A swap that fails has seen a head that another thread changed, so it can fail only so often. */
inline push(n, is_notice, answer) {
  do
  ::
    d_step { assert(LIVE(n)); seen = head; next[n] = (seen == AWAKE -> 0 : seen) };   /* the link is ours until
                                                                                       the swap succeeds */
    atomic {
      if
#ifndef NO_CLOSED_CHECK
      :: seen == CLOSED -> answer = refused; break
      :: seen != CLOSED && head == seen ->
#else
      :: head == seen ->
#endif
        head = n;
        answer = (seen == ASLEEP -> wakes : later);
        if
        :: !is_notice -> accepted[n] = true; waiting[n] = true; callable[n] = true; offered[n] = true
        :: else
        fi;
        break
      :: else
      fi
    }
  od;
  seen = 0
}

/* --- libuv's async handle ----------------------------------------------------------------------------------------- */

bool pending;           /* the handle's flag: a send that finds it set does nothing */
bool readable;          /* the descriptor behind it, which ends a poll; other handles of the loop share it */
bool async_closed;      /* uv_close was called: a send would touch a handle that may be gone */

/* The flag, then the descriptor, as in libuv today. In 1.44 the loop waits for a sender that is between the two: fewer
   orders than here. */
inline set_pending() {
  assert(!async_closed);
  if
  :: !pending -> pending = true; writes = true
  :: else
  fi
}
inline write_descriptor() { assert(!async_closed); readable = true; writes = false }

/* --- the wake: a mutex and the driver, null once the service is closed -------------------------------------------- */

bool locked;
bool driver = true;

/* Taking the mutex is one step with what follows, giving it back one with what precedes: what is between concerns only
   those that wait for the mutex. */
inline wake_if(wanted) {
#ifdef WAKE_WITHOUT_MUTEX
  if
  :: (wanted) && driver -> d_step { set_pending() }
  :: else
  fi;
  if
  :: writes -> d_step { write_descriptor() }
  :: else
  fi
#else
  if
  :: atomic { (wanted) && !locked ->
      if
      :: driver -> set_pending()
      :: else
      fi;
      locked = writes
    }
  :: !(wanted)
  fi;
  if
  :: writes -> d_step { write_descriptor(); locked = false }
  :: !writes
  fi
#endif
}

/* Only the push that found the inbox asleep wakes. */
inline push_and_wake(n, is_notice, answer) {
#ifdef WAKE_BEFORE_PUSH
  found_asleep = (head == ASLEEP);
  wake_if(found_asleep);
  push(n, is_notice, answer)
#else
  push(n, is_notice, answer);
  wake_if(answer == wakes)
#endif
}

/* --- cancelling, by any thread that has a reference --------------------------------------------------------------- */

/* A node still in the inbox is freed when it is delivered. One in the wheel is pushed again, as a notice: it is out of
   the inbox, so its link is free. The loop has one reference for both. Close drops it with what is in the wheel or in
   the inbox then; of an abandoned node, which is in neither, the canceller does. */
inline cancel(n, answer) {
  atomic {
    assert(LIVE(n));
    was = state[n];
    if
    :: was == queued || was == armed ->
      state[n] = cancelled;
      ends(n, cancelled)
    :: else         /* too late, cancelled before, or closed */
    fi
  };
  if
#ifdef NO_NOTICE
  :: false
#else
  :: was == armed
#endif
    ->
    push_and_wake(n, true, answer);
    if
    :: answer == refused ->
      assert(LIVE(n));
#ifdef ALL_ABANDONED
      drop(n)
#else
      if
      :: state[n] == abandoned -> drop(n)
      :: else
      fi
#endif
    :: else
    fi
  :: else
  fi;
  was = none
}

/* --- holds -------------------------------------------------------------------------------------------------------- */

#ifdef ENDS
byte holds = 2;         /* one of each producer */
#else
byte holds = 1;         /* one that nobody releases */
#endif

/* --- a thread that posts ------------------------------------------------------------------------------------------ */

byte done;

/* The last thread to end: everything accepted has ended in one way, and everything is freed. */
inline gone() {
  d_step {
    done++;
    if
    :: done == THREADS ->
      n = 1;
      do
      :: n <= NODES -> assert(!accepted[n] || outcome[n] != none); assert(!LIVE(n)); n++
      :: else -> break
      od;
      assert(head == CLOSED)
    :: else
    fi
  }
}

inline allocate(n) {
  d_step {
    n = 1;
    do
    :: n <= NODES && LIVE(n) -> n++
    :: else -> break
    od;
    if
    :: n <= NODES -> refs[n] = 2; state[n] = queued; poster[n] = me; turn[n] = posts
    :: else -> n = 0
    fi
  }
}

#define OFFERED(n) (offered[n] && poster[n] != me)

inline post(k) {
  atomic {
    allocate(n);
    if
    :: n == 0
    :: n != 0 -> due[n] = now
#ifdef HELD
    :: n != 0 -> due[n] = far
#endif
#if !defined(HELD) && !defined(BURST)
    :: n != 0 -> due[n] = soon
#endif
    fi
  };
  if
  :: n == 0
  :: n != 0 ->
    push_and_wake(n, false, answer);
    if
    :: answer == refused -> d_step { refs[n]--; drop_now(n); n = 0 }    /* it is the caller's again */
    :: answer != refused
    fi
  fi;
  mine[k] = n; posts++; n = 0; answer = none
}

/* cancel() or release() of a remote_timer. post() is arm() and release(). */
inline finish(k) {
  if
  :: mine[k] != 0 ->
    n = mine[k]; mine[k] = 0;
    if
    :: cancel(n, answer)
    :: true
    fi;
    d_step { offered[n] = false; drop_now(n); n = 0; answer = none }
  :: mine[k] == 0
  fi
}

/* Somebody else's, which it shares: cancels of two threads meet. */
inline cancel_anothers() {
  atomic {
    if
    :: OFFERED(1) -> n = 1; refs[n]++
    :: OFFERED(2) -> n = 2; refs[n]++
    :: NODES > 2 && OFFERED(NODES) -> n = NODES; refs[n]++
    :: n = 0
    fi
  };
  if
  :: n != 0 ->
    cancel(n, answer);
    d_step { drop_now(n); n = 0; answer = none }
  :: n == 0
  fi
}

proctype producer(bit me) {
  byte n, seen, posts, mine[2];
  mtype was = none, answer = none;
  bool writes;
#ifdef WAKE_BEFORE_PUSH
  bool found_asleep;
#endif

  post(0);
#if POSTS > 1
  if
  :: me == 0 ->
    if
    :: finish(0)
    :: true
    fi;
    post(1)
  :: else
  fi;
#endif
#ifdef SHARED
  if
  :: me == 1 -> cancel_anothers()
  :: else
  fi;
#endif
  finish(0);
#if POSTS > 1
  finish(1);
#endif

#ifdef ENDS
  atomic { holds--; posts = holds };
#ifndef RELEASE_IS_SILENT
  wake_if(posts == 0);
#endif
#endif
  gone()
}

/* --- the loop ----------------------------------------------------------------------------------------------------- */

/* Takes the inbox whole, and puts what was taken, oldest first, behind what is left of earlier takings. The links of
   taken nodes are the loop's alone. */
inline take(leaving) {
  d_step {
    m = (HAS_NONE -> 0 : head); head = leaving;
    count = 0; last = 0;
    do
    :: m != 0 -> assert(LIVE(m) && count < NODES); t = next[m]; next[m] = last; last = m; m = t; count++
    :: else -> break
    od;
    if
    :: taken == 0 -> taken = last
    :: else ->
      m = taken;
      do
      :: next[m] != 0 -> m = next[m]
      :: else -> break
      od;
      next[m] = last
    fi;
    m = 0; t = 0; last = 0; count = 0
  }
}

/* Nothing is left. Whoever pushed since has not woken us: then another pass is due. */
inline let_sleep() {
#if defined(NO_RECHECK) || defined(NEVER_ASLEEP)
  skip
#elif defined(ASLEEP_UNSEEN)
  head = ASLEEP
#else
  d_step {
    if
    :: head == AWAKE -> head = ASLEEP
    :: else -> pass_due = true
    fi
  }
#endif
}

inline take_off_the_list(n) {
  n = taken;
  assert(LIVE(n));
#ifndef LINK_READ_LATE
  taken = next[n];
#endif
  m = 1;
  do      /* first in, first out, for each producer */
  :: m <= NODES -> assert(!(waiting[n] && waiting[m] && poster[m] == poster[n] && turn[m] < turn[n])); m++
  :: else -> break
  od;
  waiting[n] = false; m = 0
}

inline link(n) { assert(LIVE(n)); in_wheel[n] = true; armed_count++; soon_count = soon_count + (due[n] == soon) }
inline unlink(n) { assert(LIVE(n)); in_wheel[n] = false; armed_count--; soon_count = soon_count - (due[n] == soon) }

/* Once, while the node is there. */
inline destroy(n) { assert(LIVE(n) && callable[n]); callable[n] = false }

/* After the handler, if any, and the callable's destructor. */
inline after_call(n) {
#ifdef NO_EXTRA_REFERENCE
  d_step {
    destroy(n);
    if
    :: state[n] == abandoned
    :: else -> drop_now(n)
    fi
  }
#else
  d_step { destroy(n); drop_now(n) }
#endif
}

/* The swap of its state decides: fired, armed, or somebody has cancelled it. The link is read before: once armed, it
   may serve a notice. */
inline deliver(n) {
  d_step {
    take_off_the_list(n);
    if
    :: state[n] == queued && due[n] == now -> state[n] = fired; ends(n, fired); calls = true
    :: state[n] == queued && due[n] != now -> state[n] = armed; link(n); arms = true
    :: else
    fi
  };
#ifdef LINK_READ_LATE
  d_step { assert(LIVE(n)); taken = next[n] };
#endif
  if
  :: arms -> arms = false
  :: calls -> skip      /* handled below, as for a timer that fires */
  :: else ->            /* cancelled, or the notice of that. An abandoned one has no callable. */
    if
    :: state[n] == abandoned -> drop(n)
    :: else ->
      d_step {
        if
        :: in_wheel[n] -> unlink(n)
        :: else
        fi
      };
#ifdef CALLABLE_FORGOTTEN
      drop(n)
#else
      calls = true      /* the destructor, which may do what a handler may */
#endif
    fi
  fi
}

/* Whichever is due. Cancelled, it leaves the wheel and is not run, but its callable is destroyed. Its notice, under way, frees it, or
   who finds the notice refused, and not before the destructor has returned: that has one more reference. The note that it has
   left the wheel is a step of its own: it comes after the look at the state. */
inline fire(n) {
  atomic {
    if
    :: in_wheel[1] && due[1] == soon -> n = 1
    :: in_wheel[2] && due[2] == soon -> n = 2
    :: NODES > 2 && in_wheel[NODES] && due[NODES] == soon -> n = NODES
    fi;
    unlink(n);
    if
#ifndef FIRES_CANCELLED
    :: state[n] == armed ->
#else
    :: true ->
#endif
      state[n] = fired; ends(n, fired); calls = true
    :: else
    fi
  };
  if
  :: calls
#if defined(NOT_ABANDONED)
  :: else -> d_step { destroy(n) }
#elif defined(ABANDONED_FREED)
  :: else -> d_step { destroy(n); drop_now(n) }
#elif defined(NO_EXTRA_REFERENCE)
  :: else -> d_step { assert(LIVE(n) && state[n] == cancelled); state[n] = abandoned; calls = true }
#else
  :: else -> d_step { assert(LIVE(n) && state[n] == cancelled); refs[n]++; state[n] = abandoned; calls = true }
#endif
  fi
}

/* One operation of `remote_cancelled`, unless the user cancelled it. */
inline count_unless_cancelled(n) {
  assert(LIVE(n));
  if
  :: state[n] == queued || state[n] == armed ->
    state[n] = shut;
#ifdef ENDS
    assert(false);        /* posted before a hold was released, it had to be delivered */
#endif
    ends(n, shut)
  :: else
  fi
}

inline clear_wheel(n) {
  do
  :: armed_count > 0 ->
    d_step {
      n = 1;
      do
      :: !in_wheel[n] -> n++
      :: else -> break
      od;
      unlink(n);
      count_unless_cancelled(n);
      destroy(n)
    };
    drop(n)
  :: else -> break
  od;
  n = 0
}

inline read_holds() {
  if
  :: holds == 0 -> held = false
  :: else
  fi
}

active proctype loop_thread() {
  byte n, m, t, last, count, taken, running, armed_count, soon_count;
  byte others = OTHERS;
  bool held = true;       /* what it last knew of the holds */
  bool pass_due, stamped, rang, worked, calls, arms;

  atomic { run producer(0); run producer(1) };

  do
  :: !held && armed_count == 0 && taken == 0 -> break       /* not alive: uv_run returns, and nothing is polled */
  :: else ->
    if                      /* prepare: what is seen in the inbox needs no wakeup any more */
    :: !HAS_NONE -> pass_due = true
    :: true                 /* a relaxed look, which may miss a push */
    fi;
    stamped = pass_due;     /* a pass that comes due after this waits for the next iteration */

    /* The poll. With a pass due it does not wait; otherwise for the descriptor, or a timer. */
#ifdef HELD
end_poll:
#endif
    if
    :: readable || others > 0 ->
      d_step {
        if
        :: readable
        :: else -> others--
        fi;
        readable = false
      };
#ifdef NO_RECHECK
      take(ASLEEP);
#endif
      if
      :: atomic { pending -> pending = false }; pass_due = true
      :: else
      fi
    :: pass_due
    :: soon_count > 0 -> d_step { pass_due = true; rang = true }
#if !defined(HELD) && !defined(ENDS)
    :: goto closing
#endif
    fi;

    if
    :: stamped ->
      /* The pass. It reads the holds before it takes: what was posted before the last release is then in the inbox. */
      pass_due = false;
#ifndef HOLDS_READ_LATE
      read_holds();
#endif
#ifndef NO_RECHECK
      take(AWAKE);
#endif
#ifdef HOLDS_READ_LATE
      read_holds();
#endif
      /* As much as the pass's bounds allow, at least one. */
      do
      :: taken != 0 || soon_count > 0 ->
        if
        :: taken != 0 -> deliver(n)
        :: soon_count > 0 -> fire(n); rang = false
        fi;
        worked = true;
        if
        :: calls ->     /* The handler, or a destructor. It may close the service; the node it stands in goes when it has returned. */
          calls = false;
#if !defined(HELD) && !defined(ENDS)
          if
          :: running = n; goto closing
          :: true
          fi;
#endif
          after_call(n)
        :: else
        fi
      :: taken == 0 && (!rang || soon_count == 0) -> let_sleep(); break
      :: taken != 0 && worked ->
#ifndef NO_CARRY
        pass_due = true;
#endif
        break
      od;
      worked = false; rang = false; stamped = false; n = 0
    :: else
    fi
  od;

closing:
  /* The driver, then the inbox, then what was taken from it, then the wheel, and only then uv_close. The callables are destroyed
     after that, each with the loop's reference to its node. No other thread can tell, so it is done at once here. */
#ifdef WAKE_WITHOUT_MUTEX
  driver = false;
#else
  atomic { !locked -> driver = false };
#endif
  n = 0;
#ifdef WHEEL_CLEARED_FIRST
  clear_wheel(n);
#endif
  take(CLOSED);
  do
  :: taken != 0 ->
    d_step {
      n = taken; assert(LIVE(n)); taken = next[n]; waiting[n] = false; count_unless_cancelled(n);
      if
      :: in_wheel[n] -> unlink(n)
      :: else
      fi;
      if
      :: state[n] == abandoned      /* destroyed before */
      :: else -> destroy(n)
      fi
    };
    drop(n)
  :: else -> break
  od;
  n = 0;
#ifndef WHEEL_CLEARED_FIRST
  clear_wheel(n);
#endif
  async_closed = true;
  if
  :: running != 0 -> after_call(running); running = 0
  :: else
  fi;
  gone()
}

/* --- what must come about ----------------------------------------------------------------------------------------- */

/* Accepted is accepted until it is freed, and only what has ended is freed. What is far stays in the wheel. */
#define WAITS_FOR_ITS_TIME(n) (due[n] == far && in_wheel[n] && outcome[n] == none)

#ifdef LIVENESS
#ifdef HELD
#define SETTLES(n) [] (accepted[n] -> <> (!accepted[n] || WAITS_FOR_ITS_TIME(n)))
#define IS_FREED(n) [] (outcome[n] == cancelled -> <> !accepted[n])
ltl comes_about { SETTLES(1) && SETTLES(2) && IS_FREED(1) && IS_FREED(2) }     /* for NODES=2 */
#else
/* The assertions of the last thread to end say the rest. */
ltl comes_about { <> (done == THREADS) }
#endif
#endif

#if defined(HELD) && !defined(LIVENESS)
/* The same as safety, for more operations: `timeout` is when no thread can take a step. */
active proctype silence() {
  byte n = 1;

  timeout;
  d_step {
    do
    :: n <= NODES -> assert(!accepted[n] || WAITS_FOR_ITS_TIME(n)); n++
    :: else -> break
    od
  }
}
#endif
