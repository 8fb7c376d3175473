# What suites of the kernel lab use. Sourced; runs in the guest, as root, under bash with `set -eu`.

# fail MESSAGE: ends the test with its reason.
fail() {
	echo "$*" >&2
	exit 1
}

# expect CODE COMMAND…: runs it; fails unless it ends with that code. Its output is in $output.
expect() {
	wanted=$1
	shift
	code=0
	output=$("$@" 2>&1) || code=$?
	# The reason comes last: of a long output only the end is shown.
	[ "$code" = "$wanted" ] || fail "$output
\`$*\` ended with $code instead of $wanted"
}

# says TEXT: fails unless the last expect's output has the text.
says() {
	case $output in *"$1"*) ;; *) fail "$output
no \`$1\` in this" ;; esac
}

# pair [QUEUES]: namespaces vm-a and vm-b with a veth cable ra-rb, 10.7.0.1 and 10.7.0.2, no IPv6, fixed neighbours.
pair() {
	queues=${1:-1}
	for end in a b; do
		ip netns add vm-$end
		in_$end sysctl -qw net.ipv6.conf.default.disable_ipv6=1 net.ipv6.conf.all.disable_ipv6=1 2>/dev/null || true
	done
	ip -n vm-a link add ra numtxqueues "$queues" numrxqueues "$queues" type veth \
		peer name rb netns vm-b numtxqueues "$queues" numrxqueues "$queues"
	cable vm-a ra 1 2
	cable vm-b rb 2 1
}

# launch_pair: the same with two queues; what A sends with priority 3 has the second, to which `etf` gives launch times.
launch_pair() {
	pair 2
	tc -n vm-a qdisc add dev ra root handle 100: mqprio num_tc 2 map 0 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 queues 1@0 1@1 hw 0
}

# etf DELTA: ETF that wakes so long before a launch time, ns, in the second queue of `launch_pair`.
etf() {
	tc -n vm-a qdisc add dev ra parent 100:2 etf clockid CLOCK_TAI delta "$1"
}

# powerlink_cell CYCLE MN CN [NODE]: /tmp/mn.toml on ra and /tmp/cn.toml on rb, one node of an octet each way; the others are
# lines of the managing node's station, of the controlled one's, and of the managing node's [[node]].
powerlink_cell() {
	objects='receives = ["6200h/1 u8"]
		sends = ["6000h/1 u8"]'
	cat >/tmp/mn.toml <<-TOML
		[station]
		node = 240
		interface = "ra"
		cycle = "$1"
		$2
		[[node]]
		number = 1
		mandatory = true
		${4:-}
		$objects
	TOML
	cat >/tmp/cn.toml <<-TOML
		[station]
		node = 1
		interface = "rb"
		cycle = "$1"
		$3
		$objects
	TOML
}

# nic_pair [virtio]: the guest's two e1000e (or virtio-net) cards, cabled by QEMU, as ra in vm-a and rb in vm-b. Named by their
# addresses.
nic_pair() {
	ends='a:1 b:2'
	[ $# = 0 ] || ends='a:3 b:4'
	for end in $ends; do
		card=$(grep -l "52:54:00:00:00:0${end#*:}" /sys/class/net/*/address | head -n 1 | cut -d/ -f5)
		[ -n "$card" ] || fail "the guest has no card 52:54:00:00:00:0${end#*:}"
		ip netns add vm-"${end%:*}"
		in_"${end%:*}" sysctl -qw net.ipv6.conf.default.disable_ipv6=1 2>/dev/null || true
		ip link set "$card" netns vm-"${end%:*}" name r"${end%:*}"
	done
	cable vm-a ra 1 2 "52:54:00:00:00:0${ends##*:}"
	ends=${ends% *}
	cable vm-b rb 2 1 "52:54:00:00:00:0${ends##*:}"
	for end in a b; do
		for _ in $(seq 50); do
			in_$end cat /sys/class/net/r$end/carrier 2>/dev/null | grep -q 1 && break
			sleep 0.1
		done
	done
}

cable() { # NAMESPACE INTERFACE OWN PEER [the peer's address; the own one stays]
	peer=02:00:00:00:00:0$4
	[ $# != 5 ] || peer=$5
	# In one batch: in the guest, starting a program takes longer than what it does.
	{
		[ $# = 5 ] || echo "link set $2 address 02:00:00:00:00:0$3"
		echo "link set lo up"
		echo "addr add 10.7.0.$3/24 dev $2"
		echo "link set $2 up"
		echo "neigh add 10.7.0.$4 lladdr $peer dev $2 nud permanent"
	} | ip -n "$1" -batch -
}

in_a() { ip netns exec vm-a "$@"; }
in_b() { ip netns exec vm-b "$@"; }

# value NAME NUMBER UNIT: a measured figure, held against its baseline by the host.
value() { echo "@@ value $*"; }

clean_up() {
	for end in a b; do
		for process in $(ip netns pids vm-$end 2>/dev/null); do kill -9 "$process" 2>/dev/null || true; done
		# A real card must be home before its namespace goes.
		number=$(ip -n vm-$end link show r$end 2>/dev/null | sed -n 's/.*52:54:00:00:00:0\(.\) brd.*/\1/p')
		[ -z "$number" ] || ip -n vm-$end link set r$end netns 1 name "nic$number"
		ip netns del vm-$end 2>/dev/null || true
	done
}
