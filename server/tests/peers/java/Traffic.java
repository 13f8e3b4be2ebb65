import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A producer and a consumer, told what to do by lines on the standard input. Words are parted by tabs, and each line is
 * answered by one line that begins with ">", and a line of the character EOT. Compiles against the clients of the 4.9
 * and the 5.x line.
 *
 * produce NAMESERVERS TOPIC COUNT             -> sent COUNT broker=N ...
 * consume NAMESERVERS TOPIC COUNT SECONDS     -> received DIFFERENT_BODIES
 * start NAMESERVERS TOPIC                     -> started       (sends until told to stop)
 * status                                      -> sent N failed N longest_ms N last ERROR
 * stop                                        -> as status
 */
public class Traffic {
    public static void main(String[] args) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Stream stream = null;
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split("\t", -1);
            String answer;
            try {
                switch (words[0]) {
                    case "produce":
                        answer = produce(words[1], words[2], Integer.parseInt(words[3]));
                        break;
                    case "consume":
                        answer = consume(words[1], words[2], Integer.parseInt(words[3]), Integer.parseInt(words[4]));
                        break;
                    case "start":
                        stream = new Stream(words[1], words[2]);
                        answer = "started";
                        break;
                    case "status":
                        answer = stream.status();
                        break;
                    case "stop":
                        stream.stop();
                        answer = stream.status();
                        break;
                    default:
                        answer = "unknown command " + line;
                }
            } catch (Exception e) {
                answer = "failed " + e.toString().replaceAll("\\s+", " ");
            }
            // Libraries print, too.
            System.out.println("> " + answer + "\n\u0004");
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static String produce(String nameServers, String topic, int count) throws Exception {
        DefaultMQProducer producer = producer(nameServers, topic);
        Map<String, Integer> perBroker = new TreeMap<>();
        try {
            for (int i = 0; i < count; i++) {
                SendResult result = producer.send(message(topic, i));
                if (result.getSendStatus() != SendStatus.SEND_OK) {
                    return "failed message " + i + ": " + result.getSendStatus();
                }
                perBroker.merge(result.getMessageQueue().getBrokerName(), 1, Integer::sum);
            }
        } finally {
            producer.shutdown();
        }
        StringBuilder answer = new StringBuilder("sent " + count);
        perBroker.forEach((broker, messages) -> answer.append(' ').append(broker).append('=').append(messages));
        return answer.toString();
    }

    private static String consume(String nameServers, String topic, int count, int seconds) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("consumer-of-" + topic);
        consumer.setNamesrvAddr(nameServers);
        // Groups with the same instance name would share one client.
        consumer.setInstanceName(consumer.getConsumerGroup());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        Map<String, Boolean> bodies = new ConcurrentHashMap<>();
        CountDownLatch enough = new CountDownLatch(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                bodies.put(new String(message.getBody(), StandardCharsets.UTF_8), true);
            }
            if (bodies.size() >= count) {
                enough.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        enough.await(seconds, TimeUnit.SECONDS);
        consumer.shutdown();
        return "received " + bodies.size();
    }

    private static DefaultMQProducer producer(String nameServers, String topic) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("producer-of-" + topic);
        producer.setNamesrvAddr(nameServers);
        producer.setInstanceName(producer.getProducerGroup());
        producer.setPollNameServerInterval(1000);
        producer.setSendMsgTimeout(5000);
        producer.start();
        return producer;
    }

    private static Message message(String topic, int i) {
        return new Message(topic, "tag", ("message " + i).getBytes(StandardCharsets.UTF_8));
    }

    /** One message every few milliseconds, without the client's own repetitions. */
    private static final class Stream {
        private final AtomicInteger sent = new AtomicInteger();
        private final AtomicInteger failed = new AtomicInteger();
        private final AtomicLong longestMillis = new AtomicLong();
        private final AtomicBoolean stopped = new AtomicBoolean();
        private volatile String lastError = "none";
        private final DefaultMQProducer producer;
        private final Thread sender;

        Stream(String nameServers, String topic) throws Exception {
            producer = producer(nameServers, topic);
            producer.setRetryTimesWhenSendFailed(0);
            sender = new Thread(() -> run(topic));
            sender.start();
        }

        private void run(String topic) {
            for (int i = 0; !stopped.get(); i++) {
                long begin = System.nanoTime();
                try {
                    producer.send(message(topic, i));
                    sent.incrementAndGet();
                } catch (Exception e) {
                    failed.incrementAndGet();
                    lastError = e.toString().replaceAll("\\s+", "_");
                }
                longestMillis.accumulateAndGet((System.nanoTime() - begin) / 1_000_000, Math::max);
                try {
                    Thread.sleep(2);
                } catch (InterruptedException e) {
                    return;
                }
            }
        }

        void stop() throws Exception {
            stopped.set(true);
            sender.join();
            producer.shutdown();
        }

        String status() {
            return "sent " + sent + " failed " + failed + " longest_ms " + longestMillis + " last " + lastError;
        }
    }
}
