// A Kafka broker on loopback for tests: kfake, with topics that are made when it starts or when a line asks for it.
//
// It prints the address of each broker on one line, reads one command a line from its input, and answers each with one line.
// It ends with its input.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	brokers := flag.Int("brokers", 1, "how many brokers")
	partitions := flag.Int("partitions", 1, "how many partitions a topic has")
	topics := flag.String("topics", "", "topics, with commas between them")
	users := flag.String("user", "", "user:password of SASL PLAIN; without one, nobody has to log in")
	directory := flag.String("directory", "", "where messages are kept, for a broker that is started again; else in memory")
	ports := flag.String("ports", "", "of the brokers, with commas between them; else any")
	flag.Parse()

	options := []kfake.Opt{
		kfake.NumBrokers(*brokers),
		kfake.DefaultNumPartitions(*partitions),
	}
	if *topics != "" {
		options = append(options, kfake.SeedTopics(int32(*partitions), strings.Split(*topics, ",")...))
	}
	if name, password, found := strings.Cut(*users, ":"); found {
		options = append(options, kfake.EnableSASL(), kfake.Superuser("PLAIN", name, password))
	}
	if *directory != "" {
		options = append(options, kfake.DataDir(*directory))
	}
	if *ports != "" {
		var each []int
		for _, port := range strings.Split(*ports, ",") {
			number, err := strconv.Atoi(port)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			each = append(each, number)
		}
		options = append(options, kfake.Ports(each...))
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer cluster.Close()
	fmt.Println(strings.Join(cluster.ListenAddrs(), ","))

	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var topic string
		var partition, node int32
		if lines.Text() == "compact" {
			cluster.Compact()
			fmt.Println("compacted")
		} else if _, err := fmt.Sscanf(lines.Text(), "move %s %d %d", &topic, &partition, &node); err != nil {
			fmt.Println("what?", lines.Text())
		} else if err := cluster.MoveTopicPartition(topic, partition, node); err != nil {
			fmt.Println(err)
		} else {
			fmt.Println("moved")
		}
	}
}
