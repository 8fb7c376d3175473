-- SPDX-License-Identifier: MIT OR Apache-2.0
--
-- Wireshark dissector for OPC UA PubSub in its binary form (UADP), over Ethernet (EtherType 0xB62C, behind VLAN tags too)
-- and over UDP.
--
--   cp uadp.lua ~/.local/lib/wireshark/plugins/        # or: tshark -X lua_script:uadp.lua
--
-- docs/pubsub.md describes the wire format. What a strict reader refuses is shown as expert information.

local uadp = Proto("uadp", "OPC UA PubSub (UADP)")

uadp.prefs.udp_port = Pref.uint("UDP port", 4840, "UDP port of messages")
uadp.prefs.signature = Pref.uint("Signature [bytes]", 32, "Length of the signature of signed messages; no field states it")

local id_types = { [0] = "Byte", "UInt16", "UInt32", "UInt64", "String" }
local message_kinds = { [0] = "DataSetMessages", "Discovery probe", "Discovery announcement" }
local encodings = { [0] = "Variant", "RawData", "DataValue" }
local data_set_kinds = { [0] = "Key frame", "Delta frame", "Event", "Keep-alive" }
local built_ins = {
	"Boolean", "SByte", "Byte", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64", "Float", "Double", "String",
	"DateTime", "Guid", "ByteString", "XmlElement", "NodeId", "ExpandedNodeId", "StatusCode", "QualifiedName",
	"LocalizedText", "ExtensionObject", "DataValue", "Variant", "DiagnosticInfo",
}

local f = {}
local function field(name, kind, text, ...)
	f[name] = ProtoField[kind]("uadp." .. name, text, ...)
end
field("flags", "uint8", "UADPFlags", base.HEX)
field("version", "uint8", "Version", base.DEC, nil, 0x0f)
field("flags.publisher", "bool", "PublisherId", 8, nil, 0x10)
field("flags.group", "bool", "Group header", 8, nil, 0x20)
field("flags.payload", "bool", "Payload header", 8, nil, 0x40)
field("flags.extended", "bool", "ExtendedFlags1", 8, nil, 0x80)
field("ext1", "uint8", "ExtendedFlags1", base.HEX)
field("ext1.id_type", "uint8", "Type of the PublisherId", base.DEC, id_types, 0x07)
field("ext1.class", "bool", "DataSetClassId", 8, nil, 0x08)
field("ext1.security", "bool", "Security header", 8, nil, 0x10)
field("ext1.timestamp", "bool", "Timestamp", 8, nil, 0x20)
field("ext1.picoseconds", "bool", "PicoSeconds", 8, nil, 0x40)
field("ext2", "uint8", "ExtendedFlags2", base.HEX)
field("ext2.chunk", "bool", "Chunk", 8, nil, 0x01)
field("ext2.promoted", "bool", "Promoted fields", 8, nil, 0x02)
field("ext2.kind", "uint8", "Kind of message", base.DEC, message_kinds, 0x1c)
field("publisher", "uint64", "PublisherId", base.DEC)
field("publisher_length", "uint32", "Length of the PublisherId", base.DEC)
field("publisher_text", "string", "PublisherId", base.UNICODE)
field("class", "bytes", "DataSetClassId")
field("group.flags", "uint8", "GroupFlags", base.HEX)
field("group.id", "uint16", "WriterGroupId", base.DEC)
field("group.version", "uint32", "GroupVersion", base.DEC)
field("group.number", "uint16", "NetworkMessageNumber", base.DEC)
field("group.sequence", "uint16", "SequenceNumber", base.DEC)
field("count", "uint8", "Count of DataSetMessages", base.DEC)
field("writer", "uint16", "DataSetWriterId", base.DEC)
field("timestamp", "uint64", "Timestamp, ticks since 1601", base.DEC)
field("picoseconds", "uint16", "PicoSeconds [10 ps]", base.DEC)
field("promoted_size", "uint16", "Size of the promoted fields", base.DEC)
field("security.flags", "uint8", "SecurityFlags", base.HEX)
field("security.signed", "bool", "Signed", 8, nil, 0x01)
field("security.encrypted", "bool", "Encrypted", 8, nil, 0x02)
field("security.footer", "bool", "Footer", 8, nil, 0x04)
field("security.reset", "bool", "Force key reset", 8, nil, 0x08)
field("security.token", "uint32", "SecurityTokenId", base.DEC)
field("security.nonce_length", "uint8", "NonceLength", base.DEC)
field("security.nonce", "bytes", "MessageNonce")
field("security.footer_size", "uint16", "SecurityFooterSize", base.DEC)
field("security.footer_bytes", "bytes", "SecurityFooter")
field("encrypted", "bytes", "Encrypted payload")
field("signature", "bytes", "Signature")
field("size", "uint16", "Size", base.DEC)
field("chunk.sequence", "uint16", "MessageSequenceNumber", base.DEC)
field("chunk.offset", "uint32", "ChunkOffset", base.DEC)
field("chunk.total", "uint32", "TotalSize", base.DEC)
field("chunk.length", "uint32", "Length of the chunk", base.DEC)
field("chunk.data", "bytes", "ChunkData")
field("discovery.type", "uint8", "Type", base.DEC)
field("discovery.sequence", "uint16", "SequenceNumber", base.DEC)
field("discovery.data", "bytes", "Content")
field("dsm.flags1", "uint8", "DataSetFlags1", base.HEX)
field("dsm.valid", "bool", "Valid", 8, nil, 0x01)
field("dsm.encoding", "uint8", "Field encoding", base.DEC, encodings, 0x06)
field("dsm.flags2", "uint8", "DataSetFlags2", base.HEX)
field("dsm.kind", "uint8", "Kind", base.DEC, data_set_kinds, 0x0f)
field("dsm.sequence", "uint16", "SequenceNumber", base.DEC)
field("dsm.timestamp", "uint64", "Timestamp, ticks since 1601", base.DEC)
field("dsm.picoseconds", "uint16", "PicoSeconds [10 ps]", base.DEC)
field("dsm.status", "uint16", "Status", base.HEX)
field("dsm.major", "uint32", "MajorVersion", base.DEC)
field("dsm.minor", "uint32", "MinorVersion", base.DEC)
field("dsm.field_count", "uint16", "FieldCount", base.DEC)
field("dsm.raw", "bytes", "RawData")
field("dsm.rest", "bytes", "Data")
field("field.index", "uint16", "Index", base.DEC)
field("field.variant", "uint8", "Type", base.HEX)
field("field.data_value", "uint8", "DataValue mask", base.HEX)
field("field.array", "int32", "Array length", base.DEC)
field("field.dimensions", "int32", "Count of dimensions", base.DEC)
field("field.dimension", "int32", "Dimension", base.DEC)
field("field.length", "int32", "Length", base.DEC)
field("field.status", "uint32", "StatusCode", base.HEX)
field("field.source", "uint64", "SourceTimestamp, ticks since 1601", base.DEC)
field("field.source_ps", "uint16", "SourcePicoSeconds [10 ps]", base.DEC)
field("field.server", "uint64", "ServerTimestamp, ticks since 1601", base.DEC)
field("field.server_ps", "uint16", "ServerPicoSeconds [10 ps]", base.DEC)
field("value.bool", "uint8", "Boolean", base.DEC)
field("value.int", "int64", "Value", base.DEC)
field("value.uint", "uint64", "Value", base.DEC)
field("value.float", "float", "Value")
field("value.double", "double", "Value")
field("value.time", "uint64", "DateTime, ticks since 1601", base.DEC)
field("value.text", "string", "Value", base.UNICODE)
field("value.bytes", "bytes", "Value")
field("padding", "bytes", "Padding")
local list = {}
for _, one in pairs(f) do
	list[#list + 1] = one
end
uadp.fields = list

local e = {
	truncated = ProtoExpert.new("uadp.truncated", "The message ends within a field",
		expert.group.MALFORMED, expert.severity.ERROR),
	version = ProtoExpert.new("uadp.wrong_version", "Not version 1",
		expert.group.PROTOCOL, expert.severity.ERROR),
	reserved = ProtoExpert.new("uadp.reserved", "A reserved value",
		expert.group.PROTOCOL, expert.severity.ERROR),
	length = ProtoExpert.new("uadp.wrong_length", "A length says more than there is",
		expert.group.MALFORMED, expert.severity.ERROR),
	trailing = ProtoExpert.new("uadp.trailing", "Octets that are no padding belong to nothing",
		expert.group.MALFORMED, expert.severity.ERROR),
	unknown = ProtoExpert.new("uadp.unknown_type", "Not dissected further",
		expert.group.UNDECODED, expert.severity.NOTE),
}
uadp.experts = e

-- A walk over the message. Faults behind which nothing has a known place end it, by `error(STOP)`.
local STOP = {}

local Walk = {}
Walk.__index = Walk

function Walk:left()
	return self.last - self.at
end

function Walk:fault(which, text)
	self.root:add_proto_expert_info(which, text .. " (offset " .. self.at .. ")")
end

function Walk:stop(which, text)
	self:fault(which, text)
	error(STOP)
end

function Walk:range(octets, what)
	if octets > self:left() then
		self:stop(e.truncated, what .. " needs " .. octets .. " octets, there are " .. self:left())
	end
	local range = self.buffer(self.at, octets)
	self.at = self.at + octets
	return range
end

-- Adds a little-endian number and returns it; of more than four octets as UInt64.
function Walk:number(tree, name, octets)
	local range = self:range(octets, name)
	local item = tree:add_le(f[name], range)
	if octets > 4 then
		return range:le_uint64(), item
	end
	return range:le_uint(), item
end

function Walk:bytes(tree, name, octets)
	if octets > 0 then
		return tree:add(f[name], self:range(octets, name))
	end
end

function Walk:rest(tree, name)
	self:bytes(tree, name, self:left())
end

function Walk:padding(tree)
	if self:left() == 0 then
		return
	end
	local range = self.buffer(self.at, self:left())
	local octets = range:bytes()
	for index = 0, octets:len() - 1 do
		if octets:get_index(index) ~= 0 then
			self:fault(e.trailing, "Octets behind the last field are no padding")
			break
		end
	end
	self:rest(tree, "padding")
end

-- Texts and octets: an Int32 length, -1 for null.
function Walk:string(tree, name)
	local length = self:number(tree, "field.length", 4)
	if length >= 0x80000000 or length == 0 then
		return
	end
	if length > self:left() then
		self:stop(e.length, "A text of " .. length .. " octets, there are " .. self:left())
	end
	local range = self:range(length, name)
	if name == "value.text" then
		tree:add_packet_field(f[name], range, ENC_UTF_8)
	else
		tree:add(f[name], range)
	end
end

function Walk:node_id(tree)
	local range = self:range(1, "NodeId")
	local form = range:uint()
	tree:add(f["value.bytes"], range)
	local kind = bit.band(form, 0x3f)
	local octets = ({ [0] = 1, 3, 6, 2, 18, 2 })[kind]
	if octets == nil then
		self:stop(e.reserved, "Form " .. form .. " of a NodeId")
	end
	self:bytes(tree, "value.bytes", octets)
	if kind == 3 or kind == 5 then
		self:string(tree, kind == 3 and "value.text" or "value.bytes")
	end
	return form
end

local numbers = {
	{ "value.bool", 1 }, { "value.int", 1 }, { "value.uint", 1 }, { "value.int", 2 }, { "value.uint", 2 },
	{ "value.int", 4 }, { "value.uint", 4 }, { "value.int", 8 }, { "value.uint", 8 }, { "value.float", 4 },
	{ "value.double", 8 }, [13] = { "value.time", 8 }, [19] = { "field.status", 4 },
}

function Walk:value(tree, kind, depth)
	local number = numbers[kind]
	if number then
		local name, octets = number[1], number[2]
		local range = self:range(octets, built_ins[kind])
		if name == "value.int" then
			-- Signed numbers of fewer octets than the field has.
			local value = octets == 8 and range:le_int64() or Int64.new(range:le_int())
			tree:add(f[name], range, value):append_text(" (" .. built_ins[kind] .. ")")
		elseif name == "value.uint" then
			local value = octets == 8 and range:le_uint64() or UInt64.new(range:le_uint())
			tree:add(f[name], range, value):append_text(" (" .. built_ins[kind] .. ")")
		else
			tree:add_le(f[name], range)
		end
	elseif kind == 12 then
		self:string(tree, "value.text")
	elseif kind == 14 then
		self:bytes(tree, "value.bytes", 16)
	elseif kind == 15 or kind == 16 then
		self:string(tree, "value.bytes")
	elseif kind == 17 then
		self:node_id(tree)
	elseif kind == 18 then
		local form = self:node_id(tree)
		if bit.band(form, 0x80) ~= 0 then
			self:string(tree, "value.text")
		end
		if bit.band(form, 0x40) ~= 0 then
			self:bytes(tree, "value.bytes", 4)
		end
	elseif kind == 20 then
		self:bytes(tree, "value.bytes", 2)
		self:string(tree, "value.text")
	elseif kind == 21 then
		local mask = self:range(1, "LocalizedText"):uint()
		for part = 1, 2 do
			if bit.band(mask, part) ~= 0 then
				self:string(tree, "value.text")
			end
		end
	elseif kind == 22 then
		self:node_id(tree)
		if self:range(1, "ExtensionObject"):uint() ~= 0 then
			self:string(tree, "value.bytes")
		end
	elseif kind == 23 and depth < 16 then
		self:data_value(tree, depth + 1)
	elseif kind == 24 and depth < 16 then
		self:variant(tree, depth + 1)
	else
		self:stop(e.unknown, "A " .. (built_ins[kind] or "value") .. " is not dissected further")
	end
end

function Walk:variant(tree, depth)
	local mask, item = self:number(tree, "field.variant", 1)
	if mask == 0 then
		item:append_text(" (null)")
		return
	end
	local kind = bit.band(mask, 0x3f)
	if built_ins[kind] == nil then
		self:stop(e.reserved, "Type " .. mask .. " of a Variant")
	end
	item:append_text(" (" .. built_ins[kind] .. ")")
	if bit.band(mask, 0x80) == 0 then
		self:value(tree, kind, depth)
		return
	end
	local count = self:number(tree, "field.array", 4)
	if count < 0x80000000 then
		if count > self:left() then
			self:stop(e.length, "An array of " .. count .. " elements in " .. self:left() .. " octets")
		end
		for _ = 1, count do
			self:value(tree, kind, depth)
		end
	end
	if bit.band(mask, 0x40) ~= 0 then
		count = self:number(tree, "field.dimensions", 4)
		if count < 0x80000000 then
			for _ = 1, count do
				self:number(tree, "field.dimension", 4)
			end
		end
	end
end

function Walk:data_value(tree, depth)
	local mask = self:number(tree, "field.data_value", 1)
	if bit.band(mask, 0xc0) ~= 0 then
		self:fault(e.reserved, "Mask " .. mask .. " of a DataValue")
	end
	if bit.band(mask, 0x01) ~= 0 then
		self:variant(tree, depth)
	end
	for _, part in ipairs({
		{ 0x02, "field.status", 4 }, { 0x04, "field.source", 8 }, { 0x10, "field.source_ps", 2 },
		{ 0x08, "field.server", 8 }, { 0x20, "field.server_ps", 2 },
	}) do
		if bit.band(mask, part[1]) ~= 0 then
			self:number(tree, part[2], part[3])
		end
	end
end

function Walk:fields(tree, delta, data_values)
	local count = self:number(tree, "dsm.field_count", 2)
	for index = 0, count - 1 do
		local item = tree:add(uadp, self.buffer(self.at, 0), "Field " .. index)
		if delta then
			item:set_text("Change " .. index)
			self:number(item, "field.index", 2)
		end
		if data_values then
			self:data_value(item, 0)
		else
			self:variant(item, 0)
		end
	end
end

function Walk:data_set(tree, index)
	local item = tree:add(uadp, self.buffer(self.at, 0), "DataSetMessage " .. index)
	local flags_at = self.at
	local first = self:number(item, "dsm.flags1", 1)
	item:add(f["dsm.valid"], self.buffer(flags_at, 1))
	item:add(f["dsm.encoding"], self.buffer(flags_at, 1))
	local encoding = bit.band(bit.rshift(first, 1), 3)
	local second = 0
	if bit.band(first, 0x80) ~= 0 then
		second = self:number(item, "dsm.flags2", 1)
		item:add(f["dsm.kind"], self.buffer(self.at - 1, 1))
	end
	for _, part in ipairs({
		{ first, 0x08, "dsm.sequence", 2 }, { second, 0x10, "dsm.timestamp", 8 }, { second, 0x20, "dsm.picoseconds", 2 },
		{ first, 0x10, "dsm.status", 2 }, { first, 0x20, "dsm.major", 4 }, { first, 0x40, "dsm.minor", 4 },
	}) do
		if bit.band(part[1], part[2]) ~= 0 then
			self:number(item, part[3], part[4])
		end
	end
	local kind = bit.band(second, 0x0f)
	local name = data_set_kinds[kind]
	if name == nil or encoding == 3 or bit.band(second, 0xc0) ~= 0 then
		self:fault(e.reserved, "Kind or encoding of a DataSetMessage")
		self:rest(item, "dsm.rest")
		return "unknown"
	end
	if kind == 0 and self:left() == 0 then
		name = "Heartbeat"
	elseif kind == 0 and encoding == 1 then
		self:rest(item, "dsm.raw")
	elseif kind == 3 then
		name = "Keep-alive"
	elseif encoding == 1 then
		self:fault(e.reserved, name .. " with RawData")
		self:rest(item, "dsm.rest")
	else
		self:fields(item, kind == 1, encoding == 2)
	end
	item:append_text(": " .. name)
	return name
end

-- Runs a step that may stop by itself; returns true if it came to its end.
local function survives(step, ...)
	local done, fault = pcall(step, ...)
	if not done and fault ~= STOP then
		error(fault)
	end
	return done, fault
end

function Walk:data_sets(count, announced)
	local names = {}
	if count < 2 then
		local index = 0
		repeat
			names[#names + 1] = self:data_set(self.root, index)
			index = index + 1
			-- Without a payload header other messages can follow, up to the padding.
		until announced or self:left() == 0 or bit.band(self.buffer(self.at, 1):uint(), 1) == 0
		self:padding(self.root)
		return names
	end
	local sizes = {}
	for index = 1, count do
		sizes[index] = self:number(self.root, "size", 2)
	end
	local last = self.last
	for index = 1, count do
		if sizes[index] > last - self.at then
			self:stop(e.length, "DataSetMessage " .. (index - 1) .. " of " .. sizes[index] .. " octets")
		end
		local next_at = self.at + sizes[index]
		self.last = next_at
		local done, name = survives(self.data_set, self, self.root, index - 1)
		if done then
			names[#names + 1] = name
			self:padding(self.root)
		end
		self.at, self.last = next_at, last
	end
	self:padding(self.root)
	return names
end

function Walk:payload(kind, chunk, count, announced)
	if chunk then
		self:number(self.root, "chunk.sequence", 2)
		self:number(self.root, "chunk.offset", 4)
		self:number(self.root, "chunk.total", 4)
		local octets = self:number(self.root, "chunk.length", 4)
		if octets > self:left() then
			self:stop(e.length, "A chunk of " .. octets .. " octets, there are " .. self:left())
		end
		self:bytes(self.root, "chunk.data", octets)
		self:padding(self.root)
		return { "Chunk" }
	elseif kind == 0 then
		return self:data_sets(count, announced)
	elseif kind == 1 or kind == 2 then
		self:number(self.root, "discovery.type", 1)
		if kind == 2 then
			self:number(self.root, "discovery.sequence", 2)
		end
		self:rest(self.root, "discovery.data")
		return { message_kinds[kind] }
	end
	self:fault(e.reserved, "Kind " .. kind .. " of message")
	self:rest(self.root, "dsm.rest")
	return { "unknown" }
end

function Walk:security()
	local at = self.at
	local flags = self:number(self.root, "security.flags", 1)
	for _, name in ipairs({ "signed", "encrypted", "footer", "reset" }) do
		self.root:add(f["security." .. name], self.buffer(at, 1))
	end
	if bit.band(flags, 0xf0) ~= 0 then
		self:fault(e.reserved, "SecurityFlags " .. flags)
	end
	self:number(self.root, "security.token", 4)
	local octets = self:number(self.root, "security.nonce_length", 1)
	self:bytes(self.root, "security.nonce", octets)
	local footer = 0
	if bit.band(flags, 0x04) ~= 0 then
		footer = self:number(self.root, "security.footer_size", 2)
	end
	return flags, footer
end

function Walk:publisher(kind)
	if kind < 4 then
		local octets = 2 ^ kind
		local range = self:range(octets, "PublisherId")
		local value = octets == 8 and range:le_uint64() or UInt64.new(range:le_uint())
		self.root:add(f.publisher, range, value):append_text(" (" .. id_types[kind] .. ")")
		return tostring(value)
	elseif kind == 4 then
		local octets = self:number(self.root, "publisher_length", 4)
		if octets > self:left() then
			self:stop(e.length, "A PublisherId of " .. octets .. " octets, there are " .. self:left())
		end
		local range = self:range(octets, "PublisherId")
		self.root:add_packet_field(f.publisher_text, range, ENC_UTF_8)
		return range:string()
	end
	self:stop(e.reserved, "Type " .. kind .. " of the PublisherId")
end

function Walk:message(info)
	local flags = self:number(self.root, "flags", 1)
	self.root:add(f.version, self.buffer(0, 1))
	for _, name in ipairs({ "publisher", "group", "payload", "extended" }) do
		self.root:add(f["flags." .. name], self.buffer(0, 1))
	end
	if bit.band(flags, 0x0f) ~= 1 then
		self:fault(e.version, "Version " .. bit.band(flags, 0x0f))
	end
	local first, second = 0, 0
	if bit.band(flags, 0x80) ~= 0 then
		first = self:number(self.root, "ext1", 1)
		for _, name in ipairs({ "id_type", "class", "security", "timestamp", "picoseconds" }) do
			self.root:add(f["ext1." .. name], self.buffer(1, 1))
		end
	end
	if bit.band(first, 0x80) ~= 0 then
		second = self:number(self.root, "ext2", 1)
		for _, name in ipairs({ "chunk", "promoted", "kind" }) do
			self.root:add(f["ext2." .. name], self.buffer(2, 1))
		end
		if bit.band(second, 0xe0) ~= 0 then
			self:fault(e.reserved, "ExtendedFlags2 " .. second)
		end
	end
	if bit.band(flags, 0x10) ~= 0 then
		info[#info + 1] = "publisher " .. self:publisher(bit.band(first, 7))
	end
	if bit.band(first, 0x08) ~= 0 then
		self:bytes(self.root, "class", 16)
	end
	if bit.band(flags, 0x20) ~= 0 then
		local group = self:number(self.root, "group.flags", 1)
		for _, part in ipairs({
			{ 1, "group.id", 2, "group " }, { 2, "group.version", 4 }, { 4, "group.number", 2 },
			{ 8, "group.sequence", 2, "message " },
		}) do
			if bit.band(group, part[1]) ~= 0 then
				local number = self:number(self.root, part[2], part[3])
				if part[4] then
					info[#info + 1] = part[4] .. number
				end
			end
		end
	end
	local chunk = bit.band(second, 1) ~= 0
	local announced = bit.band(flags, 0x40) ~= 0
	local count = 1
	if announced then
		if not chunk then
			count = self:number(self.root, "count", 1)
		end
		for _ = 1, count do
			self:number(self.root, "writer", 2)
		end
	end
	if bit.band(first, 0x20) ~= 0 then
		self:number(self.root, "timestamp", 8)
	end
	if bit.band(first, 0x40) ~= 0 then
		self:number(self.root, "picoseconds", 2)
	end
	if bit.band(second, 0x02) ~= 0 then
		local octets = self:number(self.root, "promoted_size", 2)
		local last = self.at + octets
		while self.at < last do
			self:variant(self.root, 0)
		end
	end
	local security, footer = 0, 0
	if bit.band(first, 0x10) ~= 0 then
		security, footer = self:security()
	end
	local signature = bit.band(security, 1) ~= 0 and uadp.prefs.signature or 0
	if footer + signature > self:left() then
		self:stop(e.truncated, "Security footer and signature need " .. (footer + signature) .. " octets")
	end
	local last = self.last
	self.last = last - footer - signature
	if bit.band(security, 2) ~= 0 then
		self:rest(self.root, "encrypted")
		info[#info + 1] = "encrypted"
	else
		local kind = bit.band(bit.rshift(second, 2), 7)
		local done, names = survives(self.payload, self, kind, chunk, count, announced)
		if done then
			info[#info + 1] = table.concat(names, ", ")
		end
	end
	self.at, self.last = last - footer - signature, last
	self:bytes(self.root, "security.footer_bytes", footer)
	self:bytes(self.root, "signature", signature)
end

function uadp.dissector(buffer, pinfo, tree)
	pinfo.cols.protocol = "UADP"
	if buffer:len() == 0 then
		return 0
	end
	local item = tree:add(uadp, buffer())
	local walk = setmetatable({ buffer = buffer, root = item, at = 0, last = buffer:len() }, Walk)
	local info = {}
	survives(walk.message, walk, info)
	pinfo.cols.info = "UADP " .. table.concat(info, ", ")
	return buffer:len()
end

DissectorTable.get("ethertype"):add(0xb62c, uadp)
local udp = DissectorTable.get("udp.port")
udp:add(4840, uadp)
local port = 4840

function uadp.prefs_changed()
	if port ~= uadp.prefs.udp_port then
		udp:remove(port, uadp)
		port = uadp.prefs.udp_port
		udp:add(port, uadp)
	end
end
