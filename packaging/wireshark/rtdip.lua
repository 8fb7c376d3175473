-- SPDX-License-Identifier: MIT OR Apache-2.0
--
-- Wireshark dissector for RTDiP, over Ethernet (EtherType 0x88B5, behind VLAN tags too) and over UDP.
--
--   cp rtdip.lua ~/.local/lib/wireshark/plugins/        # or: tshark -X lua_script:rtdip.lua
--
-- The wire format is described in docs/rtdip.md. What a receiver would refuse is shown as expert information.

local rtdip = Proto("rtdip", "RTDiP real-time channel")

local HEADER = 16
local STAMP = 8
local FLAG_NEWEST, FLAG_TIME, FLAGS_RESERVED = 0x1, 0x2, 0xc

rtdip.prefs.ether_type = Pref.uint("EtherType", 0x88b5, "EtherType of RTDiP frames")
rtdip.prefs.tai_offset = Pref.uint("TAI - UTC [s]", 37, "Leap seconds, to show time stamps in UTC")
rtdip.prefs.udp_any_port = Pref.bool("UDP: any port", false,
	"Take every UDP datagram that looks like RTDiP, not only where the UDP port is the channel's")

local f = {
	version = ProtoField.uint8("rtdip.version", "Version", base.DEC, nil, 0xf0),
	newest = ProtoField.bool("rtdip.flags.newest", "Newest-value semantics", 8, nil, FLAG_NEWEST),
	has_time = ProtoField.bool("rtdip.flags.time", "Time stamp follows", 8, nil, FLAG_TIME),
	reserved = ProtoField.uint8("rtdip.flags.reserved", "Reserved flags", base.HEX, nil, FLAGS_RESERVED),
	priority = ProtoField.uint8("rtdip.priority", "Priority", base.DEC),
	destination = ProtoField.uint16("rtdip.dstport", "Destination port", base.DEC),
	source = ProtoField.uint16("rtdip.srcport", "Source port", base.DEC),
	length = ProtoField.uint16("rtdip.length", "Length of user data", base.DEC),
	sequence = ProtoField.uint32("rtdip.sequence", "Sequence number", base.DEC),
	key = ProtoField.uint32("rtdip.key", "Channel key", base.HEX),
	time_ns = ProtoField.uint64("rtdip.time_tai_ns", "Sent, ns of TAI", base.DEC),
	time = ProtoField.absolute_time("rtdip.time", "Sent, UTC", base.UTC),
	data = ProtoField.bytes("rtdip.data", "User data"),
	padding = ProtoField.bytes("rtdip.padding", "Padding"),
}
rtdip.fields = f

local e = {
	truncated = ProtoExpert.new("rtdip.truncated", "Shorter than its header",
		expert.group.MALFORMED, expert.severity.ERROR),
	version = ProtoExpert.new("rtdip.wrong_version", "Not version 1: receivers refuse it",
		expert.group.PROTOCOL, expert.severity.ERROR),
	reserved = ProtoExpert.new("rtdip.reserved_flag", "Reserved flag set: receivers refuse it",
		expert.group.PROTOCOL, expert.severity.ERROR),
	priority = ProtoExpert.new("rtdip.wrong_priority", "Priority above 7: receivers refuse it",
		expert.group.PROTOCOL, expert.severity.ERROR),
	length = ProtoExpert.new("rtdip.wrong_length", "Tells of more user data than there are: receivers refuse it",
		expert.group.MALFORMED, expert.severity.ERROR),
	port = ProtoExpert.new("rtdip.other_port", "UDP port and destination port differ",
		expert.group.PROTOCOL, expert.severity.NOTE),
}
rtdip.experts = e

local function seconds_and_rest(stamp)
	local billion = UInt64(1000000000)
	return (stamp / billion):tonumber(), (stamp % billion):tonumber()
end

local function dissect(buffer, pinfo, tree, udp_port)
	pinfo.cols.protocol = "RTDiP"
	local item = tree:add(rtdip, buffer())
	local there = buffer:len()
	if there < HEADER then
		item:add_proto_expert_info(e.truncated, "Only " .. there .. " of 16 octets of header")
		pinfo.cols.info = "RTDiP, truncated"
		return there
	end
	local first = buffer(0, 1):uint()
	local version = bit.rshift(first, 4)
	local version_item = item:add(f.version, buffer(0, 1))
	if version ~= 1 then
		version_item:add_proto_expert_info(e.version, "Version " .. version .. ": receivers refuse all but 1")
	end
	item:add(f.newest, buffer(0, 1))
	item:add(f.has_time, buffer(0, 1))
	if bit.band(first, FLAGS_RESERVED) ~= 0 then
		item:add(f.reserved, buffer(0, 1)):add_proto_expert_info(e.reserved)
	end
	local priority = buffer(1, 1):uint()
	local priority_item = item:add(f.priority, buffer(1, 1))
	if priority > 7 then
		priority_item:add_proto_expert_info(e.priority)
	end
	local destination, source = buffer(2, 2):uint(), buffer(4, 2):uint()
	local port_item = item:add(f.destination, buffer(2, 2))
	if udp_port and udp_port ~= destination then
		port_item:add_proto_expert_info(e.port)
	end
	item:add(f.source, buffer(4, 2))
	local length = buffer(6, 2):uint()
	local length_item = item:add(f.length, buffer(6, 2))
	local sequence = buffer(8, 4):uint()
	item:add(f.sequence, buffer(8, 4))
	local key_item = item:add(f.key, buffer(12, 4))
	if buffer(12, 4):uint() == 0 then
		key_item:append_text(" (none)")
	end

	local at = HEADER
	if bit.band(first, FLAG_TIME) ~= 0 then
		if there < HEADER + STAMP then
			item:add_proto_expert_info(e.truncated, "No room for the time stamp that flag 0x2 tells of")
			return there
		end
		local stamp = buffer(at, STAMP):uint64()
		item:add(f.time_ns, buffer(at, STAMP))
		local seconds, rest = seconds_and_rest(stamp)
		if seconds >= rtdip.prefs.tai_offset then
			item:add(f.time, buffer(at, STAMP), NSTime.new(seconds - rtdip.prefs.tai_offset, rest))
		end
		at = at + STAMP
	end
	local left = there - at
	if length > left then
		length_item:add_proto_expert_info(e.length, "Tells of " .. length .. " octets, there are " .. left)
	end
	local data = math.min(length, left)
	if data > 0 then
		item:add(f.data, buffer(at, data))
	end
	if left > data then
		item:add(f.padding, buffer(at + data, left - data))
	end
	local semantics = bit.band(first, FLAG_NEWEST) ~= 0 and "newest" or "queue"
	pinfo.cols.info = string.format("%d → %d, %s, number %d, priority %d, %d octets",
		source, destination, semantics, sequence, priority, length)
	return there
end

function rtdip.dissector(buffer, pinfo, tree)
	local udp = pinfo.port_type == 3 and pinfo.dst_port or nil -- 3: UDP
	return dissect(buffer, pinfo, tree, udp)
end

-- Nothing on a network says that a UDP port is RTDiP's: a header that fits, at a UDP port that is the channel's, does.
local function looks_like_rtdip(buffer, pinfo)
	if buffer:len() < HEADER then
		return false
	end
	local first = buffer(0, 1):uint()
	local has_time = bit.band(first, FLAG_TIME) ~= 0
	return bit.rshift(first, 4) == 1
		and bit.band(first, FLAGS_RESERVED) == 0
		and buffer(1, 1):uint() <= 7
		and buffer(6, 2):uint() + HEADER + (has_time and STAMP or 0) == buffer:len()
		and (rtdip.prefs.udp_any_port or buffer(2, 2):uint() == pinfo.dst_port)
end

rtdip:register_heuristic("udp", function(buffer, pinfo, tree)
	if not looks_like_rtdip(buffer, pinfo) then
		return false
	end
	dissect(buffer, pinfo, tree, pinfo.dst_port)
	return true
end)

local ether_types = DissectorTable.get("ethertype")
local registered = rtdip.prefs.ether_type
ether_types:add(registered, rtdip)

function rtdip.prefs_changed()
	if rtdip.prefs.ether_type ~= registered then
		ether_types:remove(registered, rtdip)
		registered = rtdip.prefs.ether_type
		ether_types:add(registered, rtdip)
	end
end

-- "Decode as" for datagrams that the heuristic does not take.
DissectorTable.get("udp.port"):add_for_decode_as(rtdip)
