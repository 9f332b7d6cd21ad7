// Measures Netty's HashedWheelTimer under the loads of worker_bench.cpp, which explains them.
//
//   java WorkerBench --tick-ms 1 --callers 2 --timers 100000 --json FILE
//
// The worker is Netty's: each timer has a thread of its own. Netty's default is a tick of 100 ms.

import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

public final class WorkerBench {
  private static final ThreadMXBean threads = ManagementFactory.getThreadMXBean();
  private static final com.sun.management.OperatingSystemMXBean process =
      (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

  private interface Arming {
    void arm(int first, int last);
  }

  private interface Condition {
    boolean holds();
  }

  private static final class Figures {
    long callers, worker, process, arming;
    int early;
    int fired;
    long[] late = new long[0];
  }

  private final int tickMs;
  private final int callers;
  private final int timers;
  private final long[] delays;
  private final HashedWheelTimer timer;
  private Thread worker;

  private WorkerBench(int tickMs, int callers, int timers) {
    this.tickMs = tickMs;
    this.callers = callers;
    this.timers = timers;
    delays = new long[timers];
    Random random = new Random(20_240_302);
    for (int i = 0; i < timers; ++i) {
      delays[i] = 100_000_000L + (long) (random.nextDouble() * 1_900_000_000L);
    }
    timer = new HashedWheelTimer(task -> worker = new Thread(task, "worker"), tickMs, TimeUnit.MILLISECONDS);
    timer.start();
  }

  // Handlers run on the worker's thread only. Its counter is volatile because this thread reads it.
  private volatile int ran;

  private Figures fire() throws InterruptedException {
    Figures out = new Figures();
    long[] late = new long[timers];
    ran = 0;
    Arming arm = (first, last) -> {
      for (int i = first; i < last; ++i) {
        final long due = System.nanoTime() + delays[i];
        timer.newTimeout(timeout -> {
          late[ran] = System.nanoTime() - due;
          ran = ran + 1;
        }, delays[i], TimeUnit.NANOSECONDS);
      }
    };
    run(out, arm, () -> ran == timers);
    out.fired = ran;
    for (int i = 0; i < timers; ++i) {
      if (late[i] < 0) {
        ++out.early;
        late[i] = 0;
      }
    }
    Arrays.sort(late);
    out.late = late;
    return out;
  }

  private Figures cancel() throws InterruptedException {
    Figures out = new Figures();
    ran = 0;
    Arming arm = (first, last) -> {
      Timeout[] asked = new Timeout[1000];
      for (int i = first; i < last; ++i) {
        int at = i % asked.length;
        if (asked[at] != null) {
          asked[at].cancel();
        }
        asked[at] = timer.newTimeout(timeout -> ran = ran + 1, 5, TimeUnit.SECONDS);
      }
      for (Timeout timeout : asked) {
        if (timeout != null) {
          timeout.cancel();
        }
      }
    };
    run(out, arm, () -> timer.pendingTimeouts() == 0);
    out.fired = ran;
    return out;
  }

  private void run(Figures out, Arming arm, Condition until) throws InterruptedException {
    AtomicLong busy = new AtomicLong();
    AtomicLong end = new AtomicLong();
    CountDownLatch ready = new CountDownLatch(callers);
    CountDownLatch go = new CountDownLatch(1);
    List<Thread> all = new ArrayList<>();
    for (int c = 0; c < callers; ++c) {
      int first = (int) ((long) timers * c / callers);
      int last = (int) ((long) timers * (c + 1) / callers);
      Thread caller = new Thread(() -> {
        ready.countDown();
        try {
          go.await();
        } catch (InterruptedException e) {
          throw new IllegalStateException(e);
        }
        long before = threads.getCurrentThreadCpuTime();
        arm.arm(first, last);
        busy.addAndGet(threads.getCurrentThreadCpuTime() - before);
        end.accumulateAndGet(System.nanoTime(), Math::max);
      });
      caller.start();
      all.add(caller);
    }
    ready.await();
    long processBefore = process.getProcessCpuTime();
    long workerBefore = threads.getThreadCpuTime(worker.getId());
    long begin = System.nanoTime();
    end.set(begin);
    go.countDown();
    for (Thread caller : all) {
      caller.join();
    }
    while (!until.holds()) {
      Thread.sleep(1);
    }
    out.worker = threads.getThreadCpuTime(worker.getId()) - workerBefore;
    out.process = process.getProcessCpuTime() - processBefore;
    out.callers = busy.get();
    out.arming = end.get() - begin;
  }

  private String row(String load, Figures f) {
    String row = String.format(Locale.ROOT,
        "{\"name\": \"netty, tick %d ms\", \"load\": \"%s\", \"callers\": %d, \"timers\": %d, \"caller_ns\": %.3f, "
            + "\"worker_ns\": %.3f, \"process_ns\": %.3f, \"per_second\": %.3f, \"early\": %d",
        tickMs, load, callers, timers, (double) f.callers / timers, (double) f.worker / timers, (double) f.process / timers,
        timers / (f.arming / 1e9), f.early);
    System.out.printf(Locale.ROOT, "%-8s caller %6.0f ns, worker %6.0f ns, process %6.0f ns, %5.2f M/s", load,
        (double) f.callers / timers, (double) f.worker / timers, (double) f.process / timers, timers / (f.arming / 1e3));
    if (f.late.length != 0) {
      double p50 = f.late[(int) (0.5 * (timers - 1))] / 1e3;
      double p99 = f.late[(int) (0.99 * (timers - 1))] / 1e3;
      double max = f.late[timers - 1] / 1e3;
      row += String.format(Locale.ROOT, ", \"late_p50_us\": %.3f, \"late_p99_us\": %.3f, \"late_max_us\": %.3f", p50, p99, max);
      System.out.printf(Locale.ROOT, ", late by p50 %.0f us, p99 %.0f us, at most %.0f us, early %d", p50, p99, max, f.early);
    }
    System.out.println();
    return row + "}";
  }

  public static void main(String[] arguments) throws Exception {
    int tickMs = 100;
    int callers = 1;
    int timers = 100_000;
    Path json = null;
    for (int i = 0; i < arguments.length; i += 2) {
      String value = i + 1 < arguments.length ? arguments[i + 1] : "";
      switch (arguments[i]) {
        case "--tick-ms" -> tickMs = Integer.parseInt(value);
        case "--callers" -> callers = Integer.parseInt(value);
        case "--timers" -> timers = Integer.parseInt(value);
        case "--json" -> json = Path.of(value);
        default -> {
          System.err.println("WorkerBench: unknown option " + arguments[i]);
          System.exit(2);
        }
      }
    }
    WorkerBench here = new WorkerBench(tickMs, callers, timers);
    here.fire();
    Figures fired = here.fire();
    here.cancel();
    Figures cancelled = here.cancel();
    here.timer.stop();
    String rows = here.row("fire", fired) + ",\n" + here.row("cancel", cancelled);
    if (json != null) {
      Files.writeString(json, "{\"netty\": \"" + nettyVersion() + "\", \"java\": \"" + System.getProperty("java.version") + "\", \"rows\": [\n"
          + rows + "]}\n");
    }
    if (fired.fired != timers || cancelled.fired != 0) {
      System.err.printf("WorkerBench: %d of %d timers fired, and %d that were cancelled%n", fired.fired, timers, cancelled.fired);
      System.exit(1);
    }
  }

  private static String nettyVersion() {
    var versions = io.netty.util.Version.identify();
    var common = versions.get("netty-common");
    return common == null ? "unknown" : common.artifactVersion();
  }
}
