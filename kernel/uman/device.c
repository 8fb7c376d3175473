// SPDX-License-Identifier: GPL-2.0
/* The network device: what it takes from the lower device and hands to it, addresses and filters that it passes down. */
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/if_vlan.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>

#include "uman.h"

const char *const uman_counter_names[UMAN_COUNTER_COUNT] = {
#define X(name) #name,
	UMAN_COUNTERS(X)
#undef X
};

/* The sum over all processors. */
unsigned long uman_counter(const struct uman *u, enum uman_counter which)
{
	unsigned long sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu_ptr(u->counters, cpu)->value[which]);
	return sum;
}

static bool uman_takes(const struct uman *u, __be16 protocol)
{
	const struct uman_types *types = rcu_dereference(u->types);
	unsigned int i;

	for (i = 0; types && i < types->count; i++)
		if (types->type[i] == protocol)
			return true;
	return false;
}

/* The lower device's frames: those of the chosen EtherTypes become the device's, all others go on to Linux untouched. */
rx_handler_result_t uman_receive(struct sk_buff **pskb)
{
	struct sk_buff *skb = *pskb;
	struct uman *u = rcu_dereference(skb->dev->rx_handler_data);
	struct net_device *dev = u->dev;
	struct uman_program *p;

	if (skb->pkt_type == PACKET_LOOPBACK)
		return RX_HANDLER_PASS;
	if (!(READ_ONCE(dev->flags) & IFF_UP) || !uman_takes(u, skb->protocol)) {
		uman_count(u, UMAN_rx_passed);
		return RX_HANDLER_PASS;
	}
	skb = skb_share_check(skb, GFP_ATOMIC);
	*pskb = skb;
	if (!skb) {
		uman_count(u, UMAN_rx_dropped);
		return RX_HANDLER_CONSUMED;
	}
	uman_count(u, UMAN_rx_taken);
	dev_sw_netstats_rx_add(dev, skb->len + ETH_HLEN);
	p = rcu_dereference(u->program);
	if (p && uman_program_receive(u, p, skb)) {
		consume_skb(skb);
		return RX_HANDLER_CONSUMED;
	}
	skb->dev = dev;
	if (skb->pkt_type == PACKET_HOST || skb->pkt_type == PACKET_OTHERHOST)
		skb->pkt_type = ether_addr_equal(eth_hdr(skb)->h_dest, dev->dev_addr) ?
			PACKET_HOST : PACKET_OTHERHOST;
	return RX_HANDLER_ANOTHER;
}

static netdev_tx_t uman_start_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct uman *u = netdev_priv(dev);
	unsigned int length = skb->len;

	if (uman_send(u, skb, false)) {
		dev_core_stats_tx_dropped_inc(dev);
		return NET_XMIT_DROP;
	}
	dev_sw_netstats_tx_add(dev, 1, length);
	return NETDEV_TX_OK;
}

/* The carrier is the lower device's. */
void uman_follow_lower(struct uman *u)
{
	netif_stacked_transfer_operstate(u->lower, u->dev);
}

/*
 * Has the lower device take frames for the device's address. Not where it is the lower device's own: a driver without a
 * unicast filter would take every frame for it.
 */
static int uman_take_address(struct uman *u)
{
	if (ether_addr_equal(u->dev->dev_addr, u->lower->dev_addr))
		return 0;
	return dev_uc_add(u->lower, u->dev->dev_addr);
}

/* The lower device has another address now. */
int uman_lower_address(struct uman *u)
{
	if (!(u->dev->flags & IFF_UP))
		return 0;
	/* Not there: no harm. */
	dev_uc_del(u->lower, u->dev->dev_addr);
	return uman_take_address(u);
}

static int uman_open(struct net_device *dev)
{
	struct uman *u = netdev_priv(dev);
	int err;

	err = uman_take_address(u);
	if (err)
		return err;
	if (dev->flags & IFF_ALLMULTI)
		dev_set_allmulti(u->lower, 1);
	if (dev->flags & IFF_PROMISC)
		dev_set_promiscuity(u->lower, 1);
	uman_follow_lower(u);
	return 0;
}

static int uman_stop(struct net_device *dev)
{
	struct uman *u = netdev_priv(dev);

	dev_uc_unsync(u->lower, dev);
	dev_mc_unsync(u->lower, dev);
	dev_uc_del(u->lower, dev->dev_addr);
	if (dev->flags & IFF_ALLMULTI)
		dev_set_allmulti(u->lower, -1);
	if (dev->flags & IFF_PROMISC)
		dev_set_promiscuity(u->lower, -1);
	return 0;
}

static void uman_set_rx_mode(struct net_device *dev)
{
	struct uman *u = netdev_priv(dev);

	dev_uc_sync(u->lower, dev);
	dev_mc_sync(u->lower, dev);
}

static void uman_change_rx_flags(struct net_device *dev, int change)
{
	struct uman *u = netdev_priv(dev);

	if (!(dev->flags & IFF_UP))
		return;
	if (change & IFF_ALLMULTI)
		dev_set_allmulti(u->lower, dev->flags & IFF_ALLMULTI ? 1 : -1);
	if (change & IFF_PROMISC)
		dev_set_promiscuity(u->lower, dev->flags & IFF_PROMISC ? 1 : -1);
}

static int uman_set_mac_address(struct net_device *dev, void *address)
{
	struct uman *u = netdev_priv(dev);
	struct sockaddr *sa = address;

	if (!is_valid_ether_addr(sa->sa_data))
		return -EADDRNOTAVAIL;
	if (dev->flags & IFF_UP)
		dev_uc_del(u->lower, dev->dev_addr);
	eth_hw_addr_set(dev, sa->sa_data);
	return dev->flags & IFF_UP ? uman_take_address(u) : 0;
}

static int uman_change_mtu(struct net_device *dev, int mtu)
{
	struct uman *u = netdev_priv(dev);

	if (mtu > u->lower->mtu)
		return -EINVAL;
	dev->mtu = mtu;
	return 0;
}

static int uman_vlan_add(struct net_device *dev, __be16 proto, u16 vid)
{
	struct uman *u = netdev_priv(dev);

	return vlan_vid_add(u->lower, proto, vid);
}

static int uman_vlan_kill(struct net_device *dev, __be16 proto, u16 vid)
{
	struct uman *u = netdev_priv(dev);

	vlan_vid_del(u->lower, proto, vid);
	return 0;
}

static int uman_get_iflink(const struct net_device *dev)
{
	const struct uman *u = netdev_priv(dev);

	return u->lower ? u->lower->ifindex : 0;
}

static int uman_init_device(struct net_device *dev)
{
	struct uman *u = netdev_priv(dev);

	u->counters = alloc_percpu(struct uman_counters);
	dev->tstats = netdev_alloc_pcpu_stats(struct pcpu_sw_netstats);
	if (!u->counters || !dev->tstats) {
		free_percpu(u->counters);
		free_percpu(dev->tstats);
		return -ENOMEM;
	}
	netdev_hold(u->lower, &u->lower_tracker, GFP_KERNEL);
	return 0;
}

/* Behind this no frame is in the device's paths; the lower device may go. */
static void uman_uninit(struct net_device *dev)
{
	struct uman *u = netdev_priv(dev);

	netdev_put(u->lower, &u->lower_tracker);
}

const struct net_device_ops uman_netdev_ops = {
	.ndo_init = uman_init_device,
	.ndo_uninit = uman_uninit,
	.ndo_open = uman_open,
	.ndo_stop = uman_stop,
	.ndo_start_xmit = uman_start_xmit,
	.ndo_set_rx_mode = uman_set_rx_mode,
	.ndo_change_rx_flags = uman_change_rx_flags,
	.ndo_set_mac_address = uman_set_mac_address,
	.ndo_validate_addr = eth_validate_addr,
	.ndo_change_mtu = uman_change_mtu,
	.ndo_get_stats64 = dev_get_tstats64,
	.ndo_vlan_rx_add_vid = uman_vlan_add,
	.ndo_vlan_rx_kill_vid = uman_vlan_kill,
	.ndo_get_iflink = uman_get_iflink,
};

static void uman_get_drvinfo(struct net_device *dev, struct ethtool_drvinfo *info)
{
	strscpy(info->driver, "uman", sizeof(info->driver));
}

static int uman_get_link_ksettings(struct net_device *dev, struct ethtool_link_ksettings *settings)
{
	struct uman *u = netdev_priv(dev);

	return __ethtool_get_link_ksettings(u->lower, settings);
}

static int uman_get_sset_count(struct net_device *dev, int set)
{
	return set == ETH_SS_STATS ? UMAN_COUNTER_COUNT : -EOPNOTSUPP;
}

static void uman_get_strings(struct net_device *dev, u32 set, u8 *data)
{
	int i;

	for (i = 0; set == ETH_SS_STATS && i < UMAN_COUNTER_COUNT; i++)
		strscpy(data + i * ETH_GSTRING_LEN, uman_counter_names[i], ETH_GSTRING_LEN);
}

static void uman_get_ethtool_stats(struct net_device *dev, struct ethtool_stats *stats, u64 *data)
{
	struct uman *u = netdev_priv(dev);
	int i;

	for (i = 0; i < UMAN_COUNTER_COUNT; i++)
		data[i] = uman_counter(u, i);
}

static const struct ethtool_ops uman_ethtool_ops = {
	.get_drvinfo = uman_get_drvinfo,
	.get_link = ethtool_op_get_link,
	.get_link_ksettings = uman_get_link_ksettings,
	.get_sset_count = uman_get_sset_count,
	.get_strings = uman_get_strings,
	.get_ethtool_stats = uman_get_ethtool_stats,
};

static void uman_free(struct net_device *dev)
{
	struct uman *u = netdev_priv(dev);

	kfree(rcu_dereference_protected(u->types, 1));
	free_percpu(u->counters);
	free_percpu(dev->tstats);
}

void uman_setup(struct net_device *dev)
{
	ether_setup(dev);
	dev->netdev_ops = &uman_netdev_ops;
	dev->ethtool_ops = &uman_ethtool_ops;
	dev->needs_free_netdev = true;
	dev->priv_destructor = uman_free;
	dev->priv_flags &= ~IFF_TX_SKB_SHARING;
	dev->priv_flags |= IFF_UNICAST_FLT | IFF_LIVE_ADDR_CHANGE | IFF_NO_QUEUE;
	dev->min_mtu = ETH_MIN_MTU;
	dev->max_mtu = ETH_MAX_MTU;
	/* The lower device's lock orders the senders. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
	dev->lltx = true;
#else
	dev->features |= NETIF_F_LLTX;
#endif
	/* The lower device's path inserts a tag that its driver does not. Checksums and segments are the stack's above. */
	dev->features |= NETIF_F_HW_VLAN_CTAG_TX | NETIF_F_HW_VLAN_STAG_TX |
			 NETIF_F_HW_VLAN_CTAG_FILTER | NETIF_F_HW_VLAN_STAG_FILTER;
}
