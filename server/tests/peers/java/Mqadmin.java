import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.locks.LockSupport;

import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs many commands of the administration tool in one virtual machine.
 *
 * Each line of the standard input is one command, its words parted by tabs. The answer is what the tool printed (both
 * streams, as it came), ended by a line of the character EOT. The empty line asks for the list of all commands.
 */
public class Mqadmin {
    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        hurryShutdowns();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream both = new PrintStream(printed, true, StandardCharsets.UTF_8);
            System.setOut(both);
            System.setErr(both);
            // Some commands are good for one use, so each run makes its own.
            Commands.clear();
            MQAdminStartup.main0(line.isEmpty() ? new String[0] : line.split("\t", -1), null);
            both.flush();
            printed.writeTo(answers);
            answers.println("\n\u0004");
            answers.flush();
        }
        // The tool leaves threads behind that would keep the process alive.
        Runtime.getRuntime().halt(0);
    }

    /**
     * Each command ends by joining a thread that sleeps on a queue for up to three seconds. An interruption makes that
     * thread look whether it was told to stop.
     */
    private static void hurryShutdowns() {
        Thread main = Thread.currentThread();
        Thread hurry = new Thread(() -> {
            while (true) {
                LockSupport.parkNanos(20_000_000);
                // At any other time that thread may be about something that must not be interrupted.
                if (Arrays.stream(main.getStackTrace()).noneMatch(Mqadmin::isShutdown)) {
                    continue;
                }
                for (Thread thread : Thread.getAllStackTraces().keySet()) {
                    if (thread.getName().startsWith("NettyEventExecutor")) {
                        thread.interrupt();
                    }
                }
            }
        });
        hurry.setDaemon(true);
        hurry.start();
    }

    private static boolean isShutdown(StackTraceElement frame) {
        return frame.getMethodName().equals("shutdown")
            && frame.getClassName().equals("org.apache.rocketmq.common.ServiceThread");
    }

    private static final class Commands extends MQAdminStartup {
        static void clear() {
            SUB_COMMANDS.clear();
        }
    }
}
