//! What the driver of the tests knows: one for each thread, as contexts are.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};

pub(crate) const INVALID_ENUM: c_uint = 0x0500;
pub(crate) const INVALID_VALUE: c_uint = 0x0501;
pub(crate) const INVALID_OPERATION: c_uint = 0x0502;
pub(crate) const OUT_OF_MEMORY: c_uint = 0x0505;

/// What the thread's driver knows.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Whether a context is current.
    pub(crate) current: bool,
    pub(crate) version: String,
    pub(crate) extensions: Vec<String>,
    pub(crate) uuids: Vec<[u8; 16]>,
    pub(crate) flags: c_int,
    /// Every call, by name, in order, without those that only ask.
    pub(crate) calls: Vec<&'static str>,
    /// The call that fails, and how.
    pub(crate) fault: Option<(&'static str, c_uint)>,
    /// Whether a failing import closes the descriptor that it got.
    pub(crate) closes_refused: bool,
    /// Functions that the loader does not find.
    pub(crate) missing: Vec<&'static str>,
    /// Errors that `glGetError` has not told.
    pub(crate) pending: Vec<c_uint>,
    next: c_uint,
    pub(crate) memory: BTreeMap<c_uint, Memory>,
    pub(crate) buffers: BTreeMap<c_uint, Store>,
    pub(crate) textures: BTreeMap<c_uint, Store>,
    pub(crate) semaphores: BTreeMap<c_uint, Semaphore>,
    /// What is bound, by target.
    pub(crate) bound: BTreeMap<c_uint, c_uint>,
    /// The last signal or wait: buffers, textures, layouts.
    pub(crate) barriers: (Vec<c_uint>, Vec<c_uint>, Vec<c_uint>),
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) dedicated: bool,
    /// Size, type of handle, value.
    pub(crate) imported: Option<(u64, c_uint, usize)>,
    pub(crate) name: Vec<u16>,
}

/// What a buffer or texture lies in: memory, offset, and for textures target, levels, format, extents.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Store {
    pub(crate) memory: c_uint,
    pub(crate) offset: u64,
    pub(crate) size: isize,
    pub(crate) target: c_uint,
    pub(crate) shape: Vec<c_int>,
    pub(crate) format: c_uint,
    pub(crate) parameters: BTreeMap<c_uint, c_int>,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Semaphore {
    pub(crate) timeline: bool,
    pub(crate) value: u64,
    pub(crate) imported: Option<(c_uint, usize)>,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

/// Looks at the thread's driver, or changes it.
pub(crate) fn with<R>(action: impl FnOnce(&mut State) -> R) -> R {
    STATE.with(|state| action(&mut state.borrow_mut()))
}

pub(crate) const ALL: [&str; 8] = [
    "GL_ARB_direct_state_access",
    "GL_EXT_memory_object",
    "GL_EXT_memory_object_fd",
    "GL_EXT_memory_object_win32",
    "GL_EXT_semaphore",
    "GL_EXT_semaphore_fd",
    "GL_EXT_semaphore_win32",
    "GL_NV_timeline_semaphore",
];

/// Starts the thread's driver anew, with these extensions.
pub(crate) fn start(extensions: &[&str]) {
    with(|state| {
        *state = State {
            current: true,
            version: "4.6.0 fake".into(),
            extensions: extensions.iter().map(ToString::to_string).collect(),
            uuids: vec![[1; 16]],
            ..State::default()
        };
    });
}

impl State {
    /// Notes a call; whether it does what it should.
    pub(crate) fn called(&mut self, name: &'static str) -> bool {
        self.calls.push(name);
        match self.fault {
            Some((failing, code)) if failing == name => {
                self.pending.push(code);
                false
            }
            _ => true,
        }
    }

    pub(crate) fn name(&mut self) -> c_uint {
        self.next += 1;
        self.next
    }

    pub(crate) fn error(&mut self, code: c_uint) {
        self.pending.push(code);
    }

    /// Every name that is alive.
    pub(crate) fn alive(&self) -> usize {
        self.memory.len() + self.buffers.len() + self.textures.len() + self.semaphores.len()
    }
}

/// The query of what is bound to a target, if the context has that.
pub(crate) fn binding(state: &State, target: c_uint) -> Option<c_uint> {
    let es = state.version.starts_with("OpenGL ES");
    Some(match target {
        0x0DE0 if !es => 0x8068,
        0x0DE1 => 0x8069,
        0x806F => 0x806A,
        0x8C18 if !es => 0x8C1C,
        0x8C1A => 0x8C1D,
        0x8513 => 0x8514,
        0x9009 => 0x900A,
        _ => return None,
    })
}

/// The texture that is bound to a target.
pub(crate) fn bound_texture(state: &mut State, target: c_uint) -> Option<&mut Store> {
    let name = *state.bound.get(&binding(state, target)?)?;
    state.textures.get_mut(&name)
}

/// Storage of a texture, by its name.
pub(crate) fn stored(
    state: &mut State,
    call: &'static str,
    texture: c_uint,
    shape: &[c_int],
    format: c_uint,
    at: (c_uint, u64),
) {
    if !state.called(call) {
        return;
    }
    let (memory, offset) = at;
    if state.memory.get(&memory).is_none_or(|memory| memory.imported.is_none()) {
        return state.error(INVALID_OPERATION);
    }
    let store = state.textures.get_mut(&texture).expect("a texture");
    *store = Store { memory, offset, shape: shape.into(), format, ..store.clone() };
}

/// Storage of the texture that is bound to a target, which must be one of those that the call is for.
pub(crate) fn bound_stored(
    state: &mut State,
    call: &'static str,
    (target, targets): (c_uint, &[c_uint]),
    shape: &[c_int],
    format: c_uint,
    at: (c_uint, u64),
) {
    let bound = binding(state, target).and_then(|query| state.bound.get(&query).copied());
    match bound {
        _ if !targets.contains(&target) => state.error(INVALID_ENUM),
        Some(texture) if state.textures.contains_key(&texture) => stored(state, call, texture, shape, format, at),
        _ => state.error(INVALID_OPERATION),
    }
}

pub(crate) fn buffer_stored(
    state: &mut State,
    call: &'static str,
    buffer: c_uint,
    size: isize,
    memory: c_uint,
    offset: u64,
) {
    if !state.called(call) {
        return;
    }
    match state.memory.get(&memory).and_then(|memory| memory.imported) {
        None => state.error(INVALID_OPERATION),
        Some((whole, ..)) if offset + size as u64 > whole => state.error(INVALID_VALUE),
        Some(_) => drop(state.buffers.insert(buffer, Store { memory, offset, size, ..Store::default() })),
    }
}
