//! The calls to open62541: a server with one connection, and a writer group or a reader group.

use open62541_sys as ua;
use std::ffi::c_void;
use std::io::Write as _;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The numbers that both ends agree on.
const WRITER_GROUP: u16 = 100;
const WRITER: u16 = 7;
const PUBLISHER: u16 = 2234;
/// Every group has this version.
const VERSION: u32 = 1;

/// What to set up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// `opc.eth://…` or `opc.udp://…`.
    pub url: String,
    /// The interface.
    pub interface: String,
    /// UADP-Periodic-Fixed; else UADP-Dynamic.
    pub fixed: bool,
    /// A text and an array are behind the other fields.
    pub long: bool,
    /// 0 none, 1 sign, 2 sign and encrypt.
    pub security: u8,
    /// The key with token 7: signing, encrypting, nonce.
    pub key: (Vec<u8>, Vec<u8>, Vec<u8>),
}

/// The fields: an Int32 that counts up, an Int64 that counts down, a Double.
const FIELDS: [(&str, u32, u8); 3] = [
    ("up", ua::UA_TYPES_INT32, 6),
    ("down", ua::UA_TYPES_INT64, 8),
    ("same", ua::UA_TYPES_DOUBLE, 11),
];

/// The fields with a length of their own: a String of at most 12 bytes, an array of at most 3 Int16.
const LONG: [(&str, u32, u8); 2] = [
    ("text", ua::UA_TYPES_STRING, 12),
    ("list", ua::UA_TYPES_INT16, 4),
];
const MOST_BYTES: u32 = 12;
const MOST_ELEMENTS: u32 = 3;

/// Returns name, type and built-in type of a field.
const fn described(field: usize) -> (&'static str, u32, u8) {
    if field < FIELDS.len() {
        FIELDS[field]
    } else {
        LONG[field - FIELDS.len()]
    }
}

/// Returns the number of fields.
const fn fields(setup: &Setup) -> usize {
    FIELDS.len() + if setup.long { LONG.len() } else { 0 }
}

/// True for the array.
const fn is_array(field: usize) -> bool {
    field == FIELDS.len() + 1
}

/// Returns the lengths of the array's dimensions, which live as long as the process.
fn dimensions() -> &'static mut [u32] {
    vec![MOST_ELEMENTS].leak()
}

/// The value that a publisher's fields are made of.
static NUMBER: AtomicI64 = AtomicI64::new(0);
/// True where the field `down` has the time of its sample, ns since 1970.
static TIMED: AtomicBool = AtomicBool::new(false);
/// Samples to take before the end; 0: values are printed.
static WANTED: AtomicUsize = AtomicUsize::new(0);
/// True where the writes of values are only noted, for round trips.
static ROUND_TRIP: AtomicBool = AtomicBool::new(false);
/// The time of the last message's last write, ns since 1970; 0: none since it was looked at.
static WRITTEN: AtomicU64 = AtomicU64::new(0);
static AGES: Mutex<Vec<u64>> = Mutex::new(Vec::new());
/// Numbers for nodes.
static NODE: AtomicU32 = AtomicU32::new(60_000);

fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    // A reader that went away ends the process at the next look.
    if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

/// Returns a text for the library. It lives as long as the process.
fn text(text: &str) -> ua::UA_String {
    let bytes: &'static mut [u8] = text.as_bytes().to_vec().leak();
    ua::UA_String {
        length: bytes.len(),
        data: bytes.as_mut_ptr(),
    }
}

fn bytes(bytes: &[u8]) -> ua::UA_ByteString {
    let bytes: &'static mut [u8] = bytes.to_vec().leak();
    ua::UA_ByteString {
        length: bytes.len(),
        data: bytes.as_mut_ptr(),
    }
}

fn data_type(index: u32) -> *const ua::UA_DataType {
    // SAFETY: the library's table of types is never written after the start; the index is one of its constants.
    unsafe { &raw const ua::UA_TYPES[index as usize] }
}

/// Returns the identifier of a node by its number.
pub fn numeric(namespace: u16, number: u32) -> ua::UA_NodeId {
    // SAFETY: all zeroes is a valid node identifier: namespace 0, numeric, 0.
    let mut id: ua::UA_NodeId = unsafe { std::mem::zeroed() };
    id.namespaceIndex = namespace;
    // SAFETY: the identifier is numeric, so this member of the union is the one in use.
    unsafe { *id.identifier.numeric.as_mut() = number };
    id
}

/// Wraps a structure that lives as long as the process.
fn wrapped<T>(value: T, kind: u32) -> ua::UA_ExtensionObject {
    // SAFETY: all zeroes is a valid, empty object.
    let mut object: ua::UA_ExtensionObject = unsafe { std::mem::zeroed() };
    object.encoding = ua::UA_ExtensionObjectEncoding::UA_EXTENSIONOBJECT_DECODED;
    // SAFETY: the encoding says that this member of the union is in use; the data are leaked and never freed by us.
    unsafe {
        let decoded = object.content.decoded.as_mut();
        decoded.type_ = data_type(kind);
        decoded.data = Box::into_raw(Box::new(value)).cast();
    }
    object
}

fn check(what: &str, code: ua::UA_StatusCode) {
    if code != 0 {
        eprintln!("{what}: status 0x{code:08x}");
        std::process::exit(3);
    }
}

/// Returns a structure of zeroes.
fn zeroed<T>() -> T {
    // SAFETY: used for the library's plain C structures only, for which it prescribes zeroes as the initial value.
    unsafe { std::mem::zeroed() }
}

unsafe extern "C" fn changed(
    _server: *mut ua::UA_Server,
    _id: ua::UA_NodeId,
    state: ua::UA_PubSubState,
    _status: ua::UA_StatusCode,
) {
    say(&format!("state {}", state.0));
}

unsafe extern "C" fn read(
    _server: *mut ua::UA_Server,
    _session: *const ua::UA_NodeId,
    _session_context: *mut c_void,
    _node: *const ua::UA_NodeId,
    context: *mut c_void,
    _time: ua::UA_Boolean,
    _range: *const ua::UA_NumericRange,
    value: *mut ua::UA_DataValue,
) -> ua::UA_StatusCode {
    // Field 0 begins a message: the number moves on, so that each message has its own.
    let field = context as usize;
    let number = match field {
        0 => NUMBER.fetch_add(1, Ordering::Relaxed) + 1,
        _ => NUMBER.load(Ordering::Relaxed),
    };
    // SAFETY: the library hands over a valid place for the value, and copies what we point to during the call.
    unsafe {
        (*value).set_hasValue(true);
        let place = &raw mut (*value).value;
        match field {
            0 => {
                let number = number as i32;
                ua::UA_Variant_setScalarCopy(
                    place,
                    (&raw const number).cast(),
                    data_type(FIELDS[0].1),
                )
            }
            1 => {
                let number = match TIMED.load(Ordering::Relaxed) {
                    true => now_ns() as i64,
                    false => -number,
                };
                ua::UA_Variant_setScalarCopy(
                    place,
                    (&raw const number).cast(),
                    data_type(FIELDS[1].1),
                )
            }
            3 => {
                let mut value = text(&format!("text {number}"));
                ua::UA_Variant_setScalarCopy(place, (&raw mut value).cast(), data_type(LONG[0].1))
            }
            4 => {
                let numbers = [number as i16, -(number as i16), 7];
                ua::UA_Variant_setArrayCopy(
                    place,
                    numbers.as_ptr().cast(),
                    numbers.len(),
                    data_type(LONG[1].1),
                )
            }
            _ => {
                let number = 2.5_f64;
                ua::UA_Variant_setScalarCopy(
                    place,
                    (&raw const number).cast(),
                    data_type(FIELDS[2].1),
                )
            }
        }
    }
}

unsafe extern "C" fn write(
    _server: *mut ua::UA_Server,
    _session: *const ua::UA_NodeId,
    _session_context: *mut c_void,
    _node: *const ua::UA_NodeId,
    context: *mut c_void,
    _range: *const ua::UA_NumericRange,
    value: *const ua::UA_DataValue,
) -> ua::UA_StatusCode {
    // SAFETY: the library hands over a valid value; its data are of the field's type, as the metadata say, or null.
    let shown = unsafe {
        let data = (*value).value.data;
        if ROUND_TRIP.load(Ordering::Relaxed) {
            if context as usize == FIELDS.len() - 1 {
                WRITTEN.store(now_ns(), Ordering::Relaxed);
            }
            return 0;
        }
        if WANTED.load(Ordering::Relaxed) > 0 {
            if context as usize == 1 && !data.is_null() {
                aged(data.cast::<i64>().read_unaligned());
            }
            return 0;
        }
        match (context as usize, data.is_null()) {
            (_, true) => "null".to_owned(),
            (0, _) => data.cast::<i32>().read_unaligned().to_string(),
            (1, _) => data.cast::<i64>().read_unaligned().to_string(),
            (3, _) => {
                let text = data.cast::<ua::UA_String>();
                let bytes = std::slice::from_raw_parts((*text).data, (*text).length);
                String::from_utf8_lossy(bytes).into_owned()
            }
            (4, _) => {
                // Of RawData the library leaves arrayLength 0: the length is that of the dimension.
                let value = &(*value).value;
                let length = match (value.arrayLength, value.arrayDimensionsSize) {
                    (0, 1) if data as usize > 1 => *value.arrayDimensions as usize,
                    (length, _) => length,
                };
                let numbers = match length {
                    0 => &[],
                    _ => std::slice::from_raw_parts(data.cast::<i16>(), length),
                };
                format!("{numbers:?}")
            }
            _ => data.cast::<f64>().read_unaligned().to_string(),
        }
    };
    say(&format!("{} {shown}", described(context as usize).0));
    0
}

/// Adds a node for a field, which reads and writes through the functions above.
fn variable(server: *mut ua::UA_Server, field: usize) -> ua::UA_NodeId {
    let number = NODE.fetch_add(1, Ordering::Relaxed);
    let id = numeric(1, number);
    // SAFETY: a constant of the library; its members that point somewhere are null.
    let mut attributes: ua::UA_VariableAttributes =
        unsafe { ptr::read(&raw const ua::UA_VariableAttributes_default) };
    attributes.accessLevel = 3;
    // SAFETY: the table has this index; the type's identifier is plain numeric data.
    attributes.dataType = unsafe { ptr::read(&raw const (*data_type(described(field).1)).typeId) };
    attributes.valueRank = -1;
    if is_array(field) {
        let lengths = dimensions();
        attributes.valueRank = 1;
        attributes.arrayDimensionsSize = lengths.len();
        attributes.arrayDimensions = lengths.as_mut_ptr();
    }
    let source = ua::UA_CallbackValueSource {
        read: Some(read),
        write: Some(write),
    };
    let name = ua::UA_QualifiedName {
        namespaceIndex: 1,
        name: text(&format!("{} {number}", described(field).0)),
    };
    // SAFETY: the server lives; all arguments are valid for the call; the context is a number, never followed.
    let code = unsafe {
        ua::UA_Server_addCallbackValueSourceVariableNode(
            server,
            ptr::read(&raw const id),
            numeric(0, 85),
            numeric(0, 35),
            name,
            numeric(0, 63),
            attributes,
            source,
            field as *mut c_void,
            ptr::null_mut(),
        )
    };
    check("add a variable", code);
    id
}

/// A server, ready for a group.
struct Server {
    server: *mut ua::UA_Server,
    connection: ua::UA_NodeId,
    policy: *mut ua::UA_PubSubSecurityPolicy,
}

fn open(setup: &Setup) -> Server {
    // SAFETY: no arguments.
    let server = unsafe { ua::UA_Server_new() };
    assert!(!server.is_null(), "no server");
    let policy = Box::into_raw(Box::new(zeroed::<ua::UA_PubSubSecurityPolicy>()));
    // SAFETY: the server lives, and its configuration with it. The policy is leaked: the server may use it for ever.
    unsafe {
        let config = ua::UA_Server_getConfig(server);
        (*config).pubSubConfig.stateChangeCallback = Some(changed);
        // With it a writer of key frames only sends a delta frame between two of them.
        (*config).pubSubConfig.enableDeltaFrames = false;
        let code = ua::UA_PubSubSecurityPolicy_Aes128Ctr(policy, (*config).logging);
        check("the security policy", code);
    }
    Server {
        server,
        connection: connect(server, setup, &setup.url),
        policy,
    }
}

/// Adds a connection to a server.
fn connect(server: *mut ua::UA_Server, setup: &Setup, url: &str) -> ua::UA_NodeId {
    let mut config: ua::UA_PubSubConnectionConfig = zeroed();
    config.name = text(url);
    config.enabled = true;
    let ethernet = url.starts_with("opc.eth");
    let profile = if ethernet { "eth" } else { "udp" };
    config.transportProfileUri = text(&format!(
        "http://opcfoundation.org/UA-Profile/Transport/pubsub-{profile}-uadp"
    ));
    config.publisherId.idType = if setup.fixed {
        ua::UA_PublisherIdType::UA_PUBLISHERIDTYPE_UINT16
    } else {
        ua::UA_PublisherIdType::UA_PUBLISHERIDTYPE_UINT64
    };
    set_publisher(&mut config.publisherId, setup.fixed);
    let mut address = ua::UA_NetworkAddressUrlDataType {
        networkInterface: text(&setup.interface),
        url: text(url),
    };
    let mut connection = zeroed();
    // SAFETY: the server lives; the address is copied during the call.
    unsafe {
        ua::UA_Variant_setScalarCopy(
            &raw mut config.address,
            (&raw mut address).cast(),
            data_type(ua::UA_TYPES_NETWORKADDRESSURLDATATYPE),
        );
        let code =
            ua::UA_Server_addPubSubConnection(server, &raw const config, &raw mut connection);
        check("add the connection", code);
    }
    connection
}

fn set_publisher(id: &mut ua::UA_PublisherId, fixed: bool) {
    // SAFETY: the member that belongs to the type set with it; the union is large enough for each.
    unsafe {
        if fixed {
            *id.id.uint16.as_mut() = PUBLISHER;
        } else {
            *id.id.uint64.as_mut() = u64::from(PUBLISHER);
        }
    }
}

fn mode(security: u8) -> ua::UA_MessageSecurityMode {
    match security {
        0 => ua::UA_MessageSecurityMode(1),
        1 => ua::UA_MessageSecurityMode::UA_MESSAGESECURITYMODE_SIGN,
        _ => ua::UA_MessageSecurityMode::UA_MESSAGESECURITYMODE_SIGNANDENCRYPT,
    }
}

/// The masks of a layout: NetworkMessage, DataSetMessage, fields (RawData or Variant).
const fn masks(fixed: bool) -> (u32, u32, u32) {
    if fixed {
        (0x3f, 0x24, 0x20)
    } else {
        (0x41, 0x35, 0)
    }
}

/// Runs the server, and publishes at whole multiples of `interval_ns`: what its own loop cannot do below 1 ms. The process
/// is to be real-time (`chrt`). Each message has the time of its sample in the field `down`.
pub fn publish_paced(setup: &Setup, interval_ns: u64) -> ! {
    TIMED.store(true, Ordering::Relaxed);
    // Its own timer never comes.
    let (server, group) = publisher(setup, 1e9);
    let begun = now_ns();
    // SAFETY: the server lives; it is only used on this thread; identifiers are plain numeric data.
    unsafe {
        check("start", ua::UA_Server_run_startup(server));
        check("enable", ua::UA_Server_enableAllPubSubComponents(server));
        while now_ns() - begun < 300_000_000 {
            ua::UA_Server_run_iterate(server, false);
        }
        say("running");
        let mut due = (now_ns() / interval_ns + 2) * interval_ns;
        loop {
            let left = due.saturating_sub(now_ns());
            std::thread::sleep(std::time::Duration::from_nanos(left));
            ua::UA_Server_triggerWriterGroupPublish(server, ptr::read(&raw const group));
            // No burst to catch up.
            due += interval_ns * (now_ns().saturating_sub(due) / interval_ns + 1);
        }
    }
}

/// Subscribes, and prints the age of the field `down` when `samples` were written: `latency P50_NS P99_NS`.
pub fn subscribe_timed(setup: &Setup, samples: usize) -> ! {
    WANTED.store(samples, Ordering::Relaxed);
    subscribe(setup)
}

fn now_ns() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |time| time.as_nanos() as u64)
}

/// Notes the age of a sample.
fn aged(sampled_ns: i64) {
    note(now_ns().saturating_sub(sampled_ns as u64));
}

/// Notes a time. With the last one that is wanted the result is said, and the process ends.
fn note(age_ns: u64) {
    let Ok(mut ages) = AGES.lock() else { return };
    ages.push(age_ns);
    if ages.len() >= WANTED.load(Ordering::Relaxed) {
        ages.sort_unstable();
        let at = |part: usize| ages[ages.len() * part / 100];
        say(&format!("latency {} {}", at(50), at(99)));
        std::process::exit(0);
    }
}

/// Runs the server until the process is ended.
fn turn(server: *mut ua::UA_Server) -> ! {
    // SAFETY: the server lives; it is only used on this thread.
    unsafe {
        check("start", ua::UA_Server_run_startup(server));
        check("enable", ua::UA_Server_enableAllPubSubComponents(server));
        say("running");
        loop {
            ua::UA_Server_run_iterate(server, true);
        }
    }
}

/// Makes a server that publishes to one URL and reads from another, and runs it until its sockets are open.
fn both(setup: &Setup, from: &str) -> (*mut ua::UA_Server, ua::UA_NodeId) {
    ROUND_TRIP.store(true, Ordering::Relaxed);
    let opened = open(setup);
    let (server, policy) = (opened.server, opened.policy);
    // Its own timer never comes.
    let group = add_writers(opened, setup, 1e9);
    let connection = connect(server, setup, from);
    let second = Server {
        server,
        connection,
        policy,
    };
    add_readers(second, setup);
    let begun = now_ns();
    // SAFETY: the server lives; it is only used on this thread.
    unsafe {
        check("start", ua::UA_Server_run_startup(server));
        check("enable", ua::UA_Server_enableAllPubSubComponents(server));
        while now_ns() - begun < 300_000_000 {
            ua::UA_Server_run_iterate(server, false);
        }
    }
    say("running");
    (server, group)
}

fn send(server: *mut ua::UA_Server, group: &ua::UA_NodeId) {
    // SAFETY: the server lives; it is only used on this thread; the identifier is plain numeric data.
    unsafe { ua::UA_Server_triggerWriterGroupPublish(server, ptr::read(group)) };
}

/// Sends a message each millisecond, and waits for its answer from `from`: `latency P50_NS P99_NS` of the round trips. `awake`: it does not sleep
/// between them.
pub fn ping(setup: &Setup, from: &str, samples: usize, awake: bool) -> ! {
    let (server, group) = both(setup, from);
    WANTED.store(samples, Ordering::Relaxed);
    loop {
        WRITTEN.store(0, Ordering::Relaxed);
        let begun = now_ns();
        send(server, &group);
        let mut written = 0;
        while written == 0 && now_ns() - begun < 100_000_000 {
            // SAFETY: as above.
            unsafe { ua::UA_Server_run_iterate(server, true) };
            written = WRITTEN.load(Ordering::Relaxed);
        }
        if written > 0 {
            // With the last one it says the result, and ends.
            note(written.saturating_sub(begun));
        }
        let next = (now_ns() / 1_000_000 + 1) * 1_000_000;
        if awake {
            while now_ns() < next {
                std::hint::spin_loop();
            }
        } else {
            std::thread::sleep(std::time::Duration::from_nanos(
                next.saturating_sub(now_ns()),
            ));
        }
    }
}

/// Answers each message from `from` at once.
pub fn pong(setup: &Setup, from: &str) -> ! {
    let (server, group) = both(setup, from);
    loop {
        // SAFETY: as above.
        unsafe { ua::UA_Server_run_iterate(server, true) };
        if WRITTEN.swap(0, Ordering::Relaxed) > 0 {
            send(server, &group);
        }
    }
}

/// Publishes until the process is ended.
pub fn publish(setup: &Setup) -> ! {
    turn(publisher(setup, 5.0).0)
}

/// Makes a server with a writer group.
fn publisher(setup: &Setup, interval_ms: f64) -> (*mut ua::UA_Server, ua::UA_NodeId) {
    let opened = open(setup);
    let server = opened.server;
    (server, add_writers(opened, setup, interval_ms))
}

/// Adds a writer group. Returns it.
fn add_writers(opened: Server, setup: &Setup, interval_ms: f64) -> ua::UA_NodeId {
    let Server {
        server,
        connection,
        policy,
    } = opened;
    let (network, message, encoding) = masks(setup.fixed);
    let mut data_set = zeroed();
    let mut config: ua::UA_PublishedDataSetConfig = zeroed();
    config.publishedDataSetType = ua::UA_PublishedDataSetType::UA_PUBSUB_DATASET_PUBLISHEDITEMS;
    config.name = text("data");
    // SAFETY: the server lives; the configuration is copied.
    let added =
        unsafe { ua::UA_Server_addPublishedDataSet(server, &raw const config, &raw mut data_set) };
    check("add the data set", added.addResult);
    for field in 0..fields(setup) {
        let (name, ..) = described(field);
        let mut config: ua::UA_DataSetFieldConfig = zeroed();
        config.dataSetFieldType = ua::UA_DataSetFieldType::UA_PUBSUB_DATASETFIELD_VARIABLE;
        // SAFETY: the type says that this member is in use.
        let variable_config = unsafe { config.field.variable.as_mut() };
        variable_config.fieldNameAlias = text(name);
        variable_config.publishParameters.publishedVariable = variable(server, field);
        variable_config.publishParameters.attributeId = 13;
        if field >= FIELDS.len() && !is_array(field) {
            variable_config.maxStringLength = MOST_BYTES;
        }
        // SAFETY: the server lives; the configuration is copied.
        let added = unsafe {
            ua::UA_Server_addDataSetField(
                server,
                ptr::read(&raw const data_set),
                &raw const config,
                ptr::null_mut(),
            )
        };
        check("add a field", added.result);
    }
    let mut group = zeroed();
    let mut config: ua::UA_WriterGroupConfig = zeroed();
    config.name = text("group");
    config.writerGroupId = WRITER_GROUP;
    config.publishingInterval = interval_ms;
    config.encodingMimeType = ua::UA_PubSubEncodingType::UA_PUBSUB_ENCODING_UADP;
    config.securityMode = mode(setup.security);
    config.securityPolicy = if setup.security > 0 {
        policy
    } else {
        ptr::null_mut()
    };
    let mut settings: ua::UA_UadpWriterGroupMessageDataType = zeroed();
    settings.groupVersion = VERSION;
    settings.networkMessageContentMask = network;
    config.messageSettings = wrapped(settings, ua::UA_TYPES_UADPWRITERGROUPMESSAGEDATATYPE);
    // SAFETY: the server lives; configurations and keys are copied; identifiers are plain numeric data.
    unsafe {
        let code =
            ua::UA_Server_addWriterGroup(server, connection, &raw const config, &raw mut group);
        check("add the writer group", code);
        if setup.security > 0 {
            let (signing, encrypting, nonce) = &setup.key;
            let code = ua::UA_Server_setWriterGroupEncryptionKeys(
                server,
                ptr::read(&raw const group),
                7,
                bytes(signing),
                bytes(encrypting),
                bytes(nonce),
            );
            check("set the keys", code);
        }
        let mut config: ua::UA_DataSetWriterConfig = zeroed();
        config.name = text("writer");
        config.dataSetWriterId = WRITER;
        config.keyFrameCount = 1;
        config.dataSetFieldContentMask = encoding;
        let mut settings: ua::UA_UadpDataSetWriterMessageDataType = zeroed();
        settings.dataSetMessageContentMask = message;
        config.messageSettings = wrapped(settings, ua::UA_TYPES_UADPDATASETWRITERMESSAGEDATATYPE);
        let code = ua::UA_Server_addDataSetWriter(
            server,
            ptr::read(&raw const group),
            data_set,
            &raw const config,
            ptr::null_mut(),
        );
        check("add the writer", code);
    }
    group
}

/// Subscribes until the process is ended.
pub fn subscribe(setup: &Setup) -> ! {
    let opened = open(setup);
    let server = opened.server;
    add_readers(opened, setup);
    turn(server)
}

/// Adds a reader group with one reader.
fn add_readers(opened: Server, setup: &Setup) {
    let Server {
        server,
        connection,
        policy,
    } = opened;
    let (network, message, encoding) = masks(setup.fixed);
    let mut group = zeroed();
    let mut config: ua::UA_ReaderGroupConfig = zeroed();
    config.name = text("group");
    config.encodingMimeType = ua::UA_PubSubEncodingType::UA_PUBSUB_ENCODING_UADP;
    config.securityMode = mode(setup.security);
    config.securityPolicy = if setup.security > 0 {
        policy
    } else {
        ptr::null_mut()
    };
    let metadata: Vec<ua::UA_FieldMetaData> = (0..fields(setup))
        .map(|nth| {
            let (name, kind, built_in) = described(nth);
            let mut field: ua::UA_FieldMetaData = zeroed();
            field.name = text(name);
            field.builtInType = built_in;
            // SAFETY: the table has this index; the type's identifier is plain numeric data.
            field.dataType = unsafe { ptr::read(&raw const (*data_type(kind)).typeId) };
            field.valueRank = -1;
            if is_array(nth) {
                let lengths = dimensions();
                field.valueRank = 1;
                field.arrayDimensionsSize = lengths.len();
                field.arrayDimensions = lengths.as_mut_ptr();
            } else if nth >= FIELDS.len() {
                field.maxStringLength = MOST_BYTES;
            }
            field
        })
        .collect();
    let mut config_of_reader: ua::UA_DataSetReaderConfig = zeroed();
    config_of_reader.name = text("reader");
    config_of_reader.publisherId.idType = if setup.fixed {
        ua::UA_PublisherIdType::UA_PUBLISHERIDTYPE_UINT16
    } else {
        ua::UA_PublisherIdType::UA_PUBLISHERIDTYPE_UINT64
    };
    set_publisher(&mut config_of_reader.publisherId, setup.fixed);
    config_of_reader.writerGroupId = WRITER_GROUP;
    config_of_reader.dataSetWriterId = WRITER;
    config_of_reader.dataSetFieldContentMask = encoding;
    let metadata: &'static mut [ua::UA_FieldMetaData] = metadata.leak();
    config_of_reader.dataSetMetaData.name = text("data");
    config_of_reader.dataSetMetaData.fieldsSize = metadata.len();
    config_of_reader.dataSetMetaData.fields = metadata.as_mut_ptr();
    let mut settings: ua::UA_UadpDataSetReaderMessageDataType = zeroed();
    settings.groupVersion = VERSION;
    settings.networkMessageContentMask = network;
    settings.dataSetMessageContentMask = message;
    config_of_reader.messageSettings =
        wrapped(settings, ua::UA_TYPES_UADPDATASETREADERMESSAGEDATATYPE);
    let targets: Vec<ua::UA_FieldTargetDataType> = (0..fields(setup))
        .map(|field| {
            let mut target: ua::UA_FieldTargetDataType = zeroed();
            target.attributeId = 13;
            target.targetNodeId = variable(server, field);
            target
        })
        .collect();
    let mut reader = zeroed();
    // SAFETY: the server lives; configurations, keys and targets are copied; identifiers are plain numeric data.
    unsafe {
        let code =
            ua::UA_Server_addReaderGroup(server, connection, &raw const config, &raw mut group);
        check("add the reader group", code);
        if setup.security > 0 {
            let (signing, encrypting, nonce) = &setup.key;
            let code = ua::UA_Server_setReaderGroupEncryptionKeys(
                server,
                ptr::read(&raw const group),
                7,
                bytes(signing),
                bytes(encrypting),
                bytes(nonce),
            );
            check("set the keys", code);
        }
        let code = ua::UA_Server_addDataSetReader(
            server,
            group,
            &raw const config_of_reader,
            &raw mut reader,
        );
        check("add the reader", code);
        let code = ua::UA_Server_setDataSetReaderTargetVariables(
            server,
            reader,
            targets.len(),
            targets.as_ptr(),
        );
        check("set the targets", code);
    }
}
