// Sends messages to a topic and receives them again, knowing only the name server.
//
// Arguments: name server, topic, number of messages, seconds to wait for them.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func main() {
	nameServer, topic := os.Args[1], os.Args[2]
	count, err := strconv.Atoi(os.Args[3])
	check(err)
	seconds, err := strconv.Atoi(os.Args[4])
	check(err)

	check(send(nameServer, topic, count))
	fmt.Println("> sent", count)
	received, err := receive(nameServer, topic, count, time.Duration(seconds)*time.Second)
	check(err)
	fmt.Println("> received", received)
}

func send(nameServer, topic string, count int) error {
	sender, err := rocketmq.NewProducer(
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{nameServer})),
		producer.WithGroupName("go-producer"),
	)
	if err != nil {
		return err
	}
	if err := sender.Start(); err != nil {
		return err
	}
	defer sender.Shutdown()
	for i := 0; i < count; i++ {
		message := primitive.NewMessage(topic, []byte(fmt.Sprintf("message %d", i)))
		result, err := sender.SendSync(context.Background(), message)
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		if result.Status != primitive.SendOK {
			return fmt.Errorf("message %d: status %d", i, result.Status)
		}
	}
	return nil
}

// The number of different messages that came within the time.
func receive(nameServer, topic string, count int, patience time.Duration) (int, error) {
	receiver, err := rocketmq.NewPushConsumer(
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{nameServer})),
		consumer.WithGroupName("go-consumer"),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	if err != nil {
		return 0, err
	}
	var lock sync.Mutex
	bodies := map[string]bool{}
	enough := make(chan struct{})
	listen := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		lock.Lock()
		defer lock.Unlock()
		before := len(bodies)
		for _, message := range messages {
			bodies[string(message.Body)] = true
		}
		if before < count && len(bodies) >= count {
			close(enough)
		}
		return consumer.ConsumeSuccess, nil
	}
	if err := receiver.Subscribe(topic, consumer.MessageSelector{}, listen); err != nil {
		return 0, err
	}
	if err := receiver.Start(); err != nil {
		return 0, err
	}
	defer receiver.Shutdown()
	select {
	case <-enough:
	case <-time.After(patience):
	}
	lock.Lock()
	defer lock.Unlock()
	return len(bodies), nil
}

func check(err error) {
	if err != nil {
		fmt.Println("> failed", err)
		os.Exit(1)
	}
}
