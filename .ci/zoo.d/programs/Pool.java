import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;

/** Threads that compute, and programs that they start. */
public class Pool {
    static long sum(int n) {
        long sum = 0;
        for (int i = 0; i < n; i++) sum = (sum + (long) i * i) % 1009;
        return sum;
    }

    static int sort() throws Exception {
        Process process = new ProcessBuilder("sort", "-n").start();
        process.getOutputStream().write("3\n1\n2\n".getBytes());
        process.getOutputStream().close();
        return process.getInputStream().readAllBytes().length + process.waitFor();
    }

    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(3);
        List<Future<Long>> sums =
                IntStream.range(0, 6).mapToObj(i -> pool.submit(() -> sum(20_000_000 + i))).toList();
        for (Future<Long> sum : sums) System.out.print(sum.get() + " ");
        for (int i = 0; i < 3; i++) System.out.print(pool.submit(Pool::sort).get() + " ");
        System.out.println();
        pool.shutdown();
    }
}
