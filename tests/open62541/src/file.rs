//! Binary configuration files of PubSub, by open62541's own tables of types.

use open62541_sys as ua;
use std::ptr;

fn data_type(index: u32) -> *const ua::UA_DataType {
    // SAFETY: the library's table of types is never written after the start; the index is one of its constants.
    unsafe { &raw const ua::UA_TYPES[index as usize] }
}

fn bytes(bytes: &[u8]) -> ua::UA_ByteString {
    let bytes: &'static mut [u8] = bytes.to_vec().leak();
    ua::UA_ByteString {
        length: bytes.len(),
        data: bytes.as_mut_ptr(),
    }
}

fn shown(text: &ua::UA_String) -> String {
    if text.data.is_null() || text.length == 0 {
        return String::new();
    }
    // SAFETY: a text of the library has `length` octets at `data`, and is not changed while it is looked at.
    let octets = unsafe { std::slice::from_raw_parts(text.data, text.length) };
    String::from_utf8_lossy(octets).into_owned()
}

fn list<'a, T>(first: *mut T, count: usize) -> &'a mut [T] {
    if first.is_null() || count == 0 {
        return &mut [];
    }
    // SAFETY: the decoder made `count` elements at `first`; nothing else looks at them, and they are never freed.
    unsafe { std::slice::from_raw_parts_mut(first, count) }
}

fn encoded(value: *const std::ffi::c_void, kind: *const ua::UA_DataType) -> Vec<u8> {
    let mut out = ua::UA_ByteString {
        length: 0,
        data: ptr::null_mut(),
    };
    // SAFETY: the value is of the type; an empty text lets the library allocate.
    let code = unsafe { ua::UA_encodeBinary(value, kind, &raw mut out, ptr::null_mut()) };
    assert_eq!(code, 0, "encode: status 0x{code:08x}");
    list(out.data, out.length).to_vec()
}

/// Decodes a file, says what is in it, writes it again to `again`, and with other values to `changed`.
pub fn check(file: &str, again: &str, changed: &str) {
    let octets = std::fs::read(file).expect("the file");
    let input = bytes(&octets);
    // SAFETY: all zeroes is a valid, empty object.
    let mut object: ua::UA_ExtensionObject = unsafe { std::mem::zeroed() };
    let kind = data_type(ua::UA_TYPES_EXTENSIONOBJECT);
    // SAFETY: input and place are valid, and of the type.
    let code = unsafe {
        ua::UA_decodeBinary(
            &raw const input,
            (&raw mut object).cast(),
            kind,
            ptr::null_mut(),
        )
    };
    assert_eq!(code, 0, "decode: status 0x{code:08x}");
    assert_eq!(
        object.encoding,
        ua::UA_ExtensionObjectEncoding::UA_EXTENSIONOBJECT_DECODED
    );
    // SAFETY: the encoding says that this member is in use.
    let decoded = unsafe { object.content.decoded.as_ref() };
    assert_eq!(
        decoded.type_,
        data_type(ua::UA_TYPES_UABINARYFILEDATATYPE),
        "no file"
    );
    // SAFETY: the type says what the data are.
    let body = unsafe { &mut (*decoded.data.cast::<ua::UA_UABinaryFileDataType>()).body };
    // Of both structures, the second begins with the fields of the first.
    let known = [
        ua::UA_TYPES_PUBSUBCONFIGURATIONDATATYPE,
        ua::UA_TYPES_PUBSUBCONFIGURATION2DATATYPE,
    ];
    assert!(
        known
            .into_iter()
            .any(|index| body.type_ == data_type(index)),
        "an unknown body"
    );
    let configuration: *mut ua::UA_PubSubConfigurationDataType = body.data.cast();
    std::fs::write(again, encoded((&raw const object).cast(), kind)).expect("write");
    // SAFETY: the type says what the data are, and nothing else uses them.
    let configuration = unsafe { &mut *configuration };
    tell(configuration);
    for connection in list(configuration.connections, configuration.connectionsSize) {
        for group in list(connection.writerGroups, connection.writerGroupsSize) {
            group.publishingInterval *= 2.0;
            group.writerGroupId += 1;
        }
        for group in list(connection.readerGroups, connection.readerGroupsSize) {
            for reader in list(group.dataSetReaders, group.dataSetReadersSize) {
                reader.writerGroupId += 1;
                reader.messageReceiveTimeout *= 2.0;
            }
        }
    }
    std::fs::write(changed, encoded((&raw const object).cast(), kind)).expect("write");
}

fn tell(configuration: &ua::UA_PubSubConfigurationDataType) {
    for set in list(
        configuration.publishedDataSets,
        configuration.publishedDataSetsSize,
    ) {
        println!("set {}", shown(&set.name));
        for field in list(set.dataSetMetaData.fields, set.dataSetMetaData.fieldsSize) {
            println!(
                "field {} {} {}",
                shown(&field.name),
                field.builtInType,
                field.valueRank
            );
        }
    }
    for connection in list(configuration.connections, configuration.connectionsSize) {
        println!("connection {}", shown(&connection.transportProfileUri));
        // SAFETY: the type of the address is looked at before its data.
        let url = unsafe {
            let address = connection.address.content.decoded.as_ref();
            assert_eq!(
                address.type_,
                data_type(ua::UA_TYPES_NETWORKADDRESSURLDATATYPE)
            );
            &*address.data.cast::<ua::UA_NetworkAddressUrlDataType>()
        };
        println!("url {} {}", shown(&url.url), shown(&url.networkInterface));
        // SAFETY: the type of the number is looked at before its data.
        unsafe {
            assert_eq!(connection.publisherId.type_, data_type(ua::UA_TYPES_UINT16));
            println!("publisher {}", *connection.publisherId.data.cast::<u16>());
        }
        for group in list(connection.writerGroups, connection.writerGroupsSize) {
            let (id, interval, alive) = (
                group.writerGroupId,
                group.publishingInterval,
                group.keepAliveTime,
            );
            println!(
                "group {id} {interval} {alive} {} {}",
                group.securityMode.0, group.priority
            );
            // SAFETY: the type of the settings is looked at before their data.
            let settings = unsafe {
                let settings = group.messageSettings.content.decoded.as_ref();
                assert_eq!(
                    settings.type_,
                    data_type(ua::UA_TYPES_UADPWRITERGROUPMESSAGEDATATYPE)
                );
                &*settings
                    .data
                    .cast::<ua::UA_UadpWriterGroupMessageDataType>()
            };
            let offset = list(settings.publishingOffset, settings.publishingOffsetSize);
            println!(
                "settings {} {:#x} {offset:?}",
                settings.groupVersion, settings.networkMessageContentMask
            );
            for writer in list(group.dataSetWriters, group.dataSetWritersSize) {
                println!(
                    "writer {} {} {}",
                    writer.dataSetWriterId,
                    writer.keyFrameCount,
                    shown(&writer.dataSetName)
                );
            }
        }
        for group in list(connection.readerGroups, connection.readerGroupsSize) {
            for reader in list(group.dataSetReaders, group.dataSetReadersSize) {
                let (group, writer) = (reader.writerGroupId, reader.dataSetWriterId);
                println!("reader {group} {writer} {}", reader.messageReceiveTimeout);
            }
        }
    }
}
