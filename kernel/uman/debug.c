// SPDX-License-Identifier: GPL-2.0
/* <debugfs>/uman/devices: each device's options and counters, for people. Programs ask by netlink. */
#include <linux/debugfs.h>
#include <linux/rtnetlink.h>
#include <linux/seq_file.h>

#include "uman.h"

static struct dentry *folder;

static int uman_devices_show(struct seq_file *file, void *unused)
{
	const struct uman_types *types;
	const struct uman *u;
	unsigned int i;

	rtnl_lock();
	list_for_each_entry(u, &uman_devices, list) {
		seq_printf(file, "%s: netns %u, lower %s in netns %u, mode %s, queue ", u->dev->name,
			   dev_net(u->dev)->ns.inum, u->lower->name, dev_net(u->lower)->ns.inum, uman_mode_name(u->mode));
		if (u->queue == UMAN_QUEUE_OWN)
			seq_puts(file, "own");
		else
			seq_printf(file, "%u", u->queue);
		seq_puts(file, ", ethertypes");
		types = rtnl_dereference(u->types);
		for (i = 0; i < types->count; i++)
			seq_printf(file, " 0x%04x", ntohs(types->type[i]));
		seq_printf(file, ", program %s\n", rcu_access_pointer(u->program) ? "attached" : "none");
		for (i = 0; i < UMAN_COUNTER_COUNT; i++)
			seq_printf(file, "  %-20s %lu\n", uman_counter_names[i], uman_counter(u, i));
	}
	rtnl_unlock();
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(uman_devices);

void uman_debug_init(void)
{
	folder = debugfs_create_dir("uman", NULL);
	debugfs_create_file("devices", 0400, folder, NULL, &uman_devices_fops);
}

void uman_debug_exit(void)
{
	debugfs_remove_recursive(folder);
}
