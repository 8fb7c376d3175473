// SPDX-License-Identifier: GPL-2.0
/* The module: links of kind `uman`, their options, and what happens to them when the lower device changes. */
#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <linux/if_vlan.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <net/rtnetlink.h>

#include "uman.h"

LIST_HEAD(uman_devices);

static const char *const mode_names[] = { "qdisc", "direct", "netpoll" };

const char *uman_mode_name(u8 mode)
{
	return mode < ARRAY_SIZE(mode_names) ? mode_names[mode] : "unknown";
}

static const struct nla_policy uman_policy[IFLA_UMAN_MAX + 1] = {
	[IFLA_UMAN_MODE] = { .type = NLA_U8 },
	[IFLA_UMAN_ETHERTYPES] = { .type = NLA_BINARY, .len = UMAN_ETHERTYPES * sizeof(__be16) },
	[IFLA_UMAN_QUEUE] = { .type = NLA_U16 },
};

static int uman_set_types(struct uman *u, const __be16 *type, unsigned int count)
{
	struct uman_types *types = kzalloc(sizeof(*types), GFP_KERNEL), *old;

	if (!types)
		return -ENOMEM;
	types->count = count;
	memcpy(types->type, type, count * sizeof(*type));
	old = rtnl_dereference(u->types);
	rcu_assign_pointer(u->types, types);
	if (old)
		kfree_rcu(old, rcu);
	return 0;
}

static int uman_validate(struct nlattr *tb[], struct nlattr *data[], struct netlink_ext_ack *extack)
{
	int i, length;

	if (tb[IFLA_ADDRESS] && (nla_len(tb[IFLA_ADDRESS]) != ETH_ALEN ||
				 !is_valid_ether_addr(nla_data(tb[IFLA_ADDRESS])))) {
		NL_SET_ERR_MSG_ATTR(extack, tb[IFLA_ADDRESS], "no valid Ethernet address");
		return -EADDRNOTAVAIL;
	}
	if (!data || !data[IFLA_UMAN_ETHERTYPES])
		return 0;
	length = nla_len(data[IFLA_UMAN_ETHERTYPES]);
	if (length % sizeof(__be16) || length > UMAN_ETHERTYPES * sizeof(__be16)) {
		NL_SET_ERR_MSG_ATTR(extack, data[IFLA_UMAN_ETHERTYPES], "at most 8 EtherTypes of 2 bytes");
		return -EINVAL;
	}
	for (i = 0; i < length / (int)sizeof(__be16); i++) {
		__be16 type = ((__be16 *)nla_data(data[IFLA_UMAN_ETHERTYPES]))[i];

		if (ntohs(type) < ETH_P_802_3_MIN || eth_type_vlan(type)) {
			NL_SET_ERR_MSG_ATTR(extack, data[IFLA_UMAN_ETHERTYPES],
					    "an EtherType is 0x600 or more, and none of a VLAN tag");
			return -EINVAL;
		}
	}
	return 0;
}

static int uman_changelink(struct net_device *dev, struct nlattr *tb[], struct nlattr *data[],
			   struct netlink_ext_ack *extack)
{
	struct uman *u = netdev_priv(dev);
	int err;

	if (!data)
		return 0;
	/* What can be refused comes first. */
	if (data[IFLA_UMAN_MODE]) {
		err = uman_set_mode(u, nla_get_u8(data[IFLA_UMAN_MODE]), extack);
		if (err)
			return err;
	}
	if (data[IFLA_UMAN_ETHERTYPES]) {
		err = uman_set_types(u, nla_data(data[IFLA_UMAN_ETHERTYPES]),
				     nla_len(data[IFLA_UMAN_ETHERTYPES]) / sizeof(__be16));
		if (err)
			return err;
	}
	if (data[IFLA_UMAN_QUEUE])
		WRITE_ONCE(u->queue, nla_get_u16(data[IFLA_UMAN_QUEUE]));
	return 0;
}

static int uman_add(struct net *lower_net, struct net_device *dev, struct nlattr *tb[], struct nlattr *data[],
		    struct netlink_ext_ack *extack)
{
	static const __be16 usual[] = { htons(0x88ab), htons(0x88b5) };
	struct uman *u = netdev_priv(dev);
	struct net_device *lower;
	int err;

	if (!tb[IFLA_LINK]) {
		NL_SET_ERR_MSG(extack, "a uman device needs a lower device: `link DEVICE`");
		return -EINVAL;
	}
	lower = __dev_get_by_index(lower_net, nla_get_u32(tb[IFLA_LINK]));
	if (!lower)
		return -ENODEV;
	if (lower->type != ARPHRD_ETHER || lower->flags & IFF_LOOPBACK) {
		NL_SET_ERR_MSG(extack, "the lower device is no Ethernet device");
		return -EINVAL;
	}
	if (lower->netdev_ops == &uman_netdev_ops) {
		NL_SET_ERR_MSG(extack, "the lower device is a uman device itself");
		return -EINVAL;
	}

	u->dev = dev;
	u->lower = lower;
	u->mode = UMAN_MODE_QDISC;
	u->queue = UMAN_QUEUE_OWN;
	if (!tb[IFLA_ADDRESS])
		eth_hw_addr_inherit(dev, lower);
	if (!tb[IFLA_MTU]) {
		dev->mtu = lower->mtu;
	} else if (dev->mtu > lower->mtu) {
		NL_SET_ERR_MSG(extack, "the MTU is greater than the lower device's");
		return -EINVAL;
	}
	dev->needed_headroom = lower->needed_headroom;
	dev->needed_tailroom = lower->needed_tailroom;

	/* Calls ndo_init, which allocates; ndo_uninit and the destructor undo that, here and below. */
	err = register_netdevice(dev);
	if (err)
		return err;
	err = uman_set_types(u, usual, ARRAY_SIZE(usual));
	if (err)
		goto unregister;
	err = uman_changelink(dev, tb, data, extack);
	if (err)
		goto no_mode;
	err = netdev_rx_handler_register(lower, uman_receive, u);
	if (err) {
		NL_SET_ERR_MSG(extack, "the lower device has a receive handler already (a bridge, a bond, another uman)");
		goto no_mode;
	}
	err = netdev_upper_dev_link(lower, dev, extack);
	if (err)
		goto no_handler;
	list_add_tail(&u->list, &uman_devices);
	uman_follow_lower(u);
	return 0;

no_handler:
	netdev_rx_handler_unregister(lower);
no_mode:
	uman_set_mode(u, UMAN_MODE_QDISC, NULL);
unregister:
	unregister_netdevice(dev);
	return err;
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 15, 0)
static int uman_newlink(struct net_device *dev, struct rtnl_newlink_params *params, struct netlink_ext_ack *extack)
{
	return uman_add(rtnl_newlink_link_net(params), dev, params->tb, params->data, extack);
}
#else
static int uman_newlink(struct net *src_net, struct net_device *dev, struct nlattr *tb[], struct nlattr *data[],
			struct netlink_ext_ack *extack)
{
	return uman_add(src_net, dev, tb, data, extack);
}
#endif

static void uman_dellink(struct net_device *dev, struct list_head *head)
{
	struct uman *u = netdev_priv(dev);

	uman_program_detach(u);
	list_del(&u->list);
	/* Waits for the receive handlers that run. */
	netdev_rx_handler_unregister(u->lower);
	uman_set_mode(u, UMAN_MODE_QDISC, NULL);
	netdev_upper_dev_unlink(u->lower, dev);
	unregister_netdevice_queue(dev, head);
}

static size_t uman_get_size(const struct net_device *dev)
{
	return nla_total_size(1) + nla_total_size(2) + nla_total_size(UMAN_ETHERTYPES * sizeof(__be16));
}

static int uman_fill_info(struct sk_buff *skb, const struct net_device *dev)
{
	const struct uman *u = netdev_priv(dev);
	const struct uman_types *types;
	int err;

	rcu_read_lock();
	types = rcu_dereference(u->types);
	err = nla_put_u8(skb, IFLA_UMAN_MODE, READ_ONCE(u->mode)) ||
	      nla_put_u16(skb, IFLA_UMAN_QUEUE, READ_ONCE(u->queue)) ||
	      nla_put(skb, IFLA_UMAN_ETHERTYPES, types->count * sizeof(__be16), types->type);
	rcu_read_unlock();
	return err ? -EMSGSIZE : 0;
}

static struct net *uman_get_link_net(const struct net_device *dev)
{
	const struct uman *u = netdev_priv(dev);

	return dev_net(u->lower);
}

static struct rtnl_link_ops uman_link_ops __read_mostly = {
	.kind = "uman",
	.priv_size = sizeof(struct uman),
	.setup = uman_setup,
	.maxtype = IFLA_UMAN_MAX,
	.policy = uman_policy,
	.validate = uman_validate,
	.newlink = uman_newlink,
	.changelink = uman_changelink,
	.dellink = uman_dellink,
	.get_size = uman_get_size,
	.fill_info = uman_fill_info,
	.get_link_net = uman_get_link_net,
};

static struct uman *uman_above(const struct net_device *lower)
{
	struct uman *u;

	list_for_each_entry(u, &uman_devices, list)
		if (u->lower == lower)
			return u;
	return NULL;
}

static int uman_lower_event(struct notifier_block *block, unsigned long event, void *info)
{
	struct net_device *lower = netdev_notifier_info_to_dev(info);
	struct uman *u = uman_above(lower);
	LIST_HEAD(going);

	if (!u)
		return NOTIFY_DONE;
	switch (event) {
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
		uman_follow_lower(u);
		break;
	case NETDEV_CHANGEADDR:
		if (uman_lower_address(u))
			netdev_warn(u->dev, "%s does not take its address\n", lower->name);
		break;
	case NETDEV_CHANGEMTU:
		if (u->dev->mtu > lower->mtu)
			dev_set_mtu(u->dev, lower->mtu);
		break;
	case NETDEV_UNREGISTER:
		/* On its way into another namespace: the device stays above it. */
		if (lower->reg_state != NETREG_UNREGISTERING)
			break;
		uman_dellink(u->dev, &going);
		unregister_netdevice_many(&going);
		break;
	case NETDEV_PRE_TYPE_CHANGE:
		return NOTIFY_BAD;
	}
	return NOTIFY_DONE;
}

static struct notifier_block uman_notifier = { .notifier_call = uman_lower_event };

static int __init uman_init(void)
{
	int err;

	err = uman_program_init();
	if (err)
		return err;
	err = register_netdevice_notifier(&uman_notifier);
	if (err)
		goto no_notifier;
	err = rtnl_link_register(&uman_link_ops);
	if (err)
		goto no_link;
	uman_debug_init();
	return 0;

no_link:
	unregister_netdevice_notifier(&uman_notifier);
no_notifier:
	uman_program_exit();
	return err;
}

static void __exit uman_exit(void)
{
	uman_debug_exit();
	/* Removes every device. */
	rtnl_link_unregister(&uman_link_ops);
	unregister_netdevice_notifier(&uman_notifier);
	uman_program_exit();
	/* Callbacks that free by RCU. */
	rcu_barrier();
}

/* /sys/module/uman/parameters/abi: for those who may not open /dev/uman. */
static int uman_abi_get(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%u\n", UMAN_ABI_VERSION);
}

static int uman_abi_set(const char *value, const struct kernel_param *param)
{
	return -EPERM;
}

static const struct kernel_param_ops uman_abi_ops = { .set = uman_abi_set, .get = uman_abi_get };
module_param_cb(abi, &uman_abi_ops, NULL, 0444);
MODULE_PARM_DESC(abi, "version of the interface to programs (to be read only)");

module_init(uman_init);
module_exit(uman_exit);
MODULE_LICENSE("GPL");
MODULE_AUTHOR("The rtwire project");
MODULE_DESCRIPTION("A transmit and receive path of its own for an industrial protocol, above a stock driver");
MODULE_VERSION("0.1.0");
MODULE_ALIAS_RTNL_LINK("uman");
