// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The agent's gate at an interface.
 *
 * `leave` runs for each frame before its queue (clsact egress), and chooses
 * its HTB class. A socket that the agent has handed out is known by its
 * cookie, which no program can choose: its frames have a class of their own if
 * they are those that were admitted, and are dropped if not. Frames of planned
 * streams are known by their port; each stream has a class with its contract.
 * All other frames are best effort, and lose the mark of a higher priority. So
 * what a program may do to others follows from its socket, and not from what
 * its frames say.
 *
 * `enter` runs for each frame that arrives (clsact ingress). It polices the
 * ports of channels that this host hears: only the admitted source may send to
 * them, and no more than was admitted.
 *
 * A program without privilege has no socket for frames of its own: one that
 * sends frames sends any frame, past any queue, on any interface. So RTDiP
 * streams of such programs are datagrams between the program and the gate.
 * `leave` takes the headers of IPv4 and UDP away and writes the stream's
 * Ethernet header; `enter` puts them back.
 */
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>

#include "rtwire_bpf.h"
#include "agent.h"

#define ETH_P_PTP 0x88f7
#define ETH_P_RTDIP 0x88b5
#define VLAN_BYTES 4
#define TOS_OFFSET (ETH_HLEN + 1)
#define CHECK_OFFSET (ETH_HLEN + 10)
/* Congestion marks: not of the priority. */
#define ECN 3
#define FRAGMENT 0x3fff
#define NS_PER_S 1000000000ULL
/* Bytes of the headers of IPv4 and UDP. */
#define IP_UDP 28
#define HEADERS (ETH_HLEN + IP_UDP)
/* Offsets in the header of RTDiP, and of lengths and sum behind Ethernet's. */
#define RTDIP_PORT 2
#define RTDIP_KEY 12
#define IP_LENGTH (ETH_HLEN + 2)
#define UDP_LENGTH (ETH_HLEN + 20 + 4)
#define OTHER_HOST 3

static __u64 (*const bpf_get_socket_cookie)(void *context) =
	(void *)BPF_FUNC_get_socket_cookie;
static long (*const bpf_skb_store_bytes)(void *skb, __u32 offset,
					 const void *from, __u32 length,
					 __u64 flags) =
	(void *)BPF_FUNC_skb_store_bytes;
static long (*const bpf_l3_csum_replace)(void *skb, __u32 offset, __u64 from,
					 __u64 to, __u64 size) =
	(void *)BPF_FUNC_l3_csum_replace;
static long (*const bpf_skb_adjust_room)(void *skb, __s32 bytes, __u32 mode,
					 __u64 flags) =
	(void *)BPF_FUNC_skb_adjust_room;
static long (*const bpf_skb_change_head)(void *skb, __u32 bytes, __u64 flags) =
	(void *)BPF_FUNC_skb_change_head;
static long (*const bpf_skb_vlan_push)(void *skb, __be16 type, __u16 tag) =
	(void *)BPF_FUNC_skb_vlan_push;
static long (*const bpf_skb_vlan_pop)(void *skb) =
	(void *)BPF_FUNC_skb_vlan_pop;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RTW_AGENT_CHANNELS);
	__type(key, __u64);
	__type(value, struct rtw_agent_channel);
} channels SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RTW_AGENT_PEERS);
	__type(key, __u32);
	__type(value, struct rtw_agent_peer);
} peers SEC(".maps");

/* The class of a planned stream, by its destination port; RTW_AGENT_UDP is added for UDP. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RTW_AGENT_STREAMS);
	__type(key, __u32);
	__type(value, __u64);
} streams SEC(".maps");

/* By destination port. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RTW_AGENT_LISTENERS);
	__type(key, __u32);
	__type(value, struct rtw_agent_listener);
} listeners SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rtw_agent_totals);
} totals SEC(".maps");

/*
 * Copies the IPv4 header; returns 0 if there is none. Copies, not pointers:
 * without CAP_PERFMON no pointer to a frame may be compared with none.
 */
static __always_inline int ipv4_of(struct __sk_buff *skb, struct iphdr *ip)
{
	return skb->protocol == bpf_htons(ETH_P_IP) &&
	       !bpf_skb_load_bytes(skb, ETH_HLEN, ip, sizeof(*ip));
}

/* Destination and source port of UDP without options, source << 16 | destination; 0 for anything else. */
static __always_inline __u32 udp_ports(struct __sk_buff *skb,
				       const struct iphdr *ip)
{
	struct udphdr udp;

	if (ip->version != 4 || ip->ihl != 5 || ip->protocol != IPPROTO_UDP ||
	    ip->frag_off & bpf_htons(FRAGMENT) ||
	    bpf_skb_load_bytes(skb, ETH_HLEN + sizeof(*ip), &udp, sizeof(udp)))
		return 0;
	return (__u32)bpf_ntohs(udp.source) << 16 | bpf_ntohs(udp.dest);
}

static __always_inline __u64 addresses_of(const struct iphdr *ip)
{
	return (__u64)ip->daddr << 32 | ip->saddr;
}

/* Sets the type of service but for the congestion marks. Pointers to the frame are no longer valid then. */
static __always_inline void mark(struct __sk_buff *skb, __u8 before, __u8 tos)
{
	__u8 after = (tos & ~ECN) | (before & ECN);
	__u16 word = bpf_htons(0x4500 | before), next = bpf_htons(0x4500 | after);

	if (before == after)
		return;
	/* The sum is over words: only the lower byte of this one differs. */
	bpf_l3_csum_replace(skb, CHECK_OFFSET, word, next, sizeof(word));
	bpf_skb_store_bytes(skb, TOS_OFFSET, &after, 1, 0);
}

/* Returns the port of an RTDiP frame; -1 for any other frame. */
static __always_inline int rtdip_port(struct __sk_buff *skb)
{
	__u32 at = ETH_HLEN;
	__u16 type;

	if (bpf_skb_load_bytes(skb, ETH_HLEN - 2, &type, sizeof(type)))
		return -1;
	if (type == bpf_htons(ETH_P_8021Q)) {
		at += VLAN_BYTES;
		if (bpf_skb_load_bytes(skb, at - 2, &type, sizeof(type)))
			return -1;
	}
	if (type != bpf_htons(ETH_P_RTDIP) ||
	    bpf_skb_load_bytes(skb, at + 2, &type, sizeof(type)))
		return -1;
	return bpf_ntohs(type);
}

/* Returns key << 32 | port of an RTDiP header behind `at` bytes; 0 if there is none. */
static __always_inline __u64 rtdip_of(struct __sk_buff *skb, __u32 at)
{
	__u32 key;
	__u16 port;

	if (bpf_skb_load_bytes(skb, at + RTDIP_PORT, &port, sizeof(port)) ||
	    bpf_skb_load_bytes(skb, at + RTDIP_KEY, &key, sizeof(key)))
		return 0;
	return (__u64)bpf_ntohl(key) << 32 | bpf_ntohs(port);
}

/* Makes a frame of RTDiP of a datagram; returns other than 0 if it is none of this channel. */
static __always_inline int frame_of(struct __sk_buff *skb,
				    struct rtw_agent_channel *channel)
{
	/* A frame has at least 60 bytes: shorter ones would be padded behind the class. */
	if (skb->len < ETH_ZLEN + IP_UDP ||
	    rtdip_of(skb, HEADERS) != channel->rtdip ||
	    bpf_skb_adjust_room(skb, -IP_UDP, BPF_ADJ_ROOM_MAC, 0) ||
	    bpf_skb_store_bytes(skb, 0, channel->header, ETH_HLEN, 0))
		return -1;
	return channel->tag ? bpf_skb_vlan_push(skb, bpf_htons(ETH_P_8021Q),
						channel->tag & 0xffff) :
			      0;
}

/* Chooses the class of a channel's frame; drops a frame that is not the channel's. */
static __always_inline int leave_channel(struct __sk_buff *skb,
					 struct rtw_agent_channel *channel)
{
	struct iphdr ip;

	if (!ipv4_of(skb, &ip) || udp_ports(skb, &ip) != channel->ports ||
	    addresses_of(&ip) != channel->addresses ||
	    skb->len > channel->longest ||
	    (channel->rtdip && frame_of(skb, channel))) {
		rtw_count(channel, refused);
		return TC_ACT_SHOT;
	}
	rtw_count(channel, frames);
	__sync_fetch_and_add(&channel->bytes, skb->len);
	skb->priority = channel->class;
	if (!channel->rtdip)
		mark(skb, ip.tos, channel->tos);
	return TC_ACT_OK;
}

SEC("tc")
int leave(struct __sk_buff *skb)
{
	struct rtw_agent_channel *channel;
	struct rtw_agent_totals *total;
	struct rtw_agent_peer *peer;
	struct iphdr ip;
	__u64 cookie = bpf_get_socket_cookie(skb);
	__u32 zero = 0, port, to = 0;
	__u64 *class;
	__u8 tos = 0;
	int is_ip;

	total = bpf_map_lookup_elem(&totals, &zero);
	if (!total)
		return TC_ACT_SHOT;
	/* A class counts it as one, and would send all its parts at once. */
	if (skb->gso_segs > 1) {
		rtw_count(total, unsegmented);
		return TC_ACT_SHOT;
	}
	if (skb->protocol == bpf_htons(ETH_P_PTP)) {
		skb->priority = total->control;
		return TC_ACT_OK;
	}
	channel = cookie ? bpf_map_lookup_elem(&channels, &cookie) : 0;
	if (channel && channel->addresses)
		return leave_channel(skb, channel);
	if (channel) {
		/* The agent's and the manager's own messages. */
		rtw_count(channel, frames);
		skb->priority = channel->class;
		return TC_ACT_OK;
	}
	is_ip = ipv4_of(skb, &ip);
	port = is_ip ? (udp_ports(skb, &ip) & 0xffff) | RTW_AGENT_UDP :
		       rtdip_port(skb);
	class = bpf_map_lookup_elem(&streams, &port);
	if (class) {
		skb->priority = *class;
		return TC_ACT_OK;
	}
	if (is_ip) {
		to = ip.daddr;
		tos = ip.tos;
	}
	peer = bpf_map_lookup_elem(&peers, &to);
	if (peer) {
		__u64 until_ns = READ_ONCE(peer->until_ns);

		/* The agent lowers the class's rate before. If it could not, the frames go elsewhere. */
		if (until_ns && bpf_ktime_get_ns() >= until_ns)
			skb->priority = peer->later;
		else
			skb->priority = peer->class;
	} else {
		rtw_count(total, other_frames);
		skb->priority = total->others;
	}
	/* 0 for all that is not IPv4. */
	mark(skb, tos, 0);
	return TC_ACT_OK;
}

/* Takes a frame from the bucket. Several processors may do so at once: then the bucket may lose tokens, and never gains any. */
static __always_inline int conforms(struct rtw_agent_listener *at, __u64 wire)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 full = at->burst_bytes * NS_PER_S;
	__u64 passed = now - at->at_ns;
	__u64 tokens = at->tokens;

	/* No product exceeds `full`. */
	if (!at->rate_bytes_per_s || passed > full / at->rate_bytes_per_s)
		tokens = full;
	else
		tokens += passed * at->rate_bytes_per_s;
	if (tokens > full)
		tokens = full;
	at->at_ns = now;
	if (tokens < wire * NS_PER_S) {
		at->tokens = tokens;
		return 0;
	}
	at->tokens = tokens - wire * NS_PER_S;
	return 1;
}

/* Makes a datagram of an RTDiP frame, and lets it arrive once more. */
static __always_inline int datagram_of(struct __sk_buff *skb,
				       struct rtw_agent_listener *at)
{
	__u32 bytes = skb->len - ETH_HLEN + IP_UDP, sum = at->sum + bytes;
	/* Length, identification, fragments, time to live and protocol, sum. */
	struct {
		__u16 length, id, fragment, protocol, sum;
	} ip = { bpf_htons(bytes), 0, bpf_htons(0x4000),
		 bpf_htons(64 << 8 | IPPROTO_UDP), 0 };
	/* Without a sum of its own: the frame had none either. */
	struct {
		__u16 length, sum;
	} udp = { bpf_htons(bytes - 20), 0 };

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	ip.sum = bpf_htons(~sum & 0xffff);
	if (bpf_skb_change_head(skb, IP_UDP, 0) ||
	    bpf_skb_store_bytes(skb, 0, at->headers, HEADERS, 0) ||
	    bpf_skb_store_bytes(skb, IP_LENGTH, &ip, sizeof(ip), 0) ||
	    bpf_skb_store_bytes(skb, UDP_LENGTH, &udp, sizeof(udp), 0))
		return TC_ACT_SHOT;
	skb->mark = RTW_AGENT_MADE;
	return bpf_redirect(skb->ifindex, BPF_F_INGRESS);
}

/* A frame of RTDiP: for a stream that a program hears through the agent, or for another receiver. */
static __always_inline int enter_rtdip(struct __sk_buff *skb)
{
	struct rtw_agent_listener *at;
	__u64 frame = rtdip_of(skb, ETH_HLEN), bytes;
	__u32 port = (frame & 0xffff) | RTW_AGENT_RTDIP;

	if (skb->pkt_type == OTHER_HOST)
		return TC_ACT_OK;
	at = bpf_map_lookup_elem(&listeners, &port);
	if (!at)
		return TC_ACT_OK;
	if (frame >> 32 != at->key) {
		rtw_count(at, foreign);
		return TC_ACT_SHOT;
	}
	bytes = skb->len < ETH_ZLEN ? ETH_ZLEN : skb->len;
	if (skb->vlan_present) {
		bytes += VLAN_BYTES;
		bpf_skb_vlan_pop(skb);
	}
	if (!conforms(at, bytes + at->overhead_bytes)) {
		rtw_count(at, too_much);
		return TC_ACT_SHOT;
	}
	rtw_count(at, passed);
	return datagram_of(skb, at);
}

SEC("tc")
int enter(struct __sk_buff *skb)
{
	struct rtw_agent_listener *at;
	struct iphdr ip;
	__u64 bytes;
	__u32 ports, port;

	if (skb->mark == RTW_AGENT_MADE) {
		skb->mark = 0;
		return TC_ACT_OK;
	}
	if (skb->protocol == bpf_htons(ETH_P_RTDIP))
		return enter_rtdip(skb);
	if (!ipv4_of(skb, &ip))
		return TC_ACT_OK;
	ports = udp_ports(skb, &ip);
	port = ports & 0xffff;
	at = ports ? bpf_map_lookup_elem(&listeners, &port) : 0;
	if (!at)
		return TC_ACT_OK;
	if (addresses_of(&ip) != at->addresses ||
	    (at->source_port && ports >> 16 != at->source_port)) {
		rtw_count(at, foreign);
		return TC_ACT_SHOT;
	}
	bytes = skb->len < ETH_ZLEN ? ETH_ZLEN : skb->len;
	if (!conforms(at, bytes + at->overhead_bytes)) {
		rtw_count(at, too_much);
		return TC_ACT_SHOT;
	}
	rtw_count(at, passed);
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
