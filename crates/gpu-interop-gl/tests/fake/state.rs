//! State of the fake driver, one per thread like the current context.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};

pub(crate) const INVALID_ENUM: c_uint = 0x0500;
pub(crate) const INVALID_VALUE: c_uint = 0x0501;
pub(crate) const INVALID_OPERATION: c_uint = 0x0502;
pub(crate) const OUT_OF_MEMORY: c_uint = 0x0505;

/// State of the thread's driver.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// A context is current.
    pub(crate) current: bool,
    pub(crate) version: String,
    pub(crate) extensions: Vec<String>,
    pub(crate) uuids: Vec<[u8; 16]>,
    pub(crate) flags: c_int,
    /// Names of the calls, in order, without queries.
    pub(crate) calls: Vec<&'static str>,
    /// The call that fails, and its error code.
    pub(crate) fault: Option<(&'static str, c_uint)>,
    /// A failed import closes its descriptor.
    pub(crate) closes_rejected: bool,
    /// Functions that the loader lacks.
    pub(crate) missing: Vec<&'static str>,
    /// Errors not yet returned by `glGetError`.
    pub(crate) pending: Vec<c_uint>,
    next: c_uint,
    pub(crate) memory: BTreeMap<c_uint, Memory>,
    pub(crate) buffers: BTreeMap<c_uint, Store>,
    pub(crate) textures: BTreeMap<c_uint, Store>,
    pub(crate) semaphores: BTreeMap<c_uint, Semaphore>,
    /// Bound names, by target.
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

/// Storage of a buffer or texture: memory, offset, and for textures target, levels, format, extents.
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

/// Accesses the thread's driver.
pub(crate) fn with<R>(action: impl FnOnce(&mut State) -> R) -> R {
    STATE.with(|state| action(&mut state.borrow_mut()))
}

/// Records a call, and has this effect unless the call is set to fail.
pub(crate) fn on(call: &'static str, effect: impl FnOnce(&mut State)) {
    with(|state| {
        if state.called(call) {
            effect(state);
        }
    });
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

/// Resets the thread's driver, with these extensions.
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
    /// Records a call; returns `false` if it is set to fail.
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

    pub(crate) fn memory(&mut self, name: c_uint) -> &mut Memory {
        self.memory.get_mut(&name).expect("a memory object")
    }

    pub(crate) fn semaphore(&mut self, name: c_uint) -> &mut Semaphore {
        self.semaphores.get_mut(&name).expect("a semaphore")
    }

    pub(crate) fn texture(&mut self, name: c_uint) -> &mut Store {
        self.textures.get_mut(&name).expect("a texture")
    }

    /// Number of live names.
    pub(crate) fn alive(&self) -> usize {
        self.memory.len() + self.buffers.len() + self.textures.len() + self.semaphores.len()
    }
}

/// The query for the binding of a target, if the context has the target.
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

pub(crate) fn bound_texture(state: &mut State, target: c_uint) -> Option<&mut Store> {
    let name = *state.bound.get(&binding(state, target)?)?;
    state.textures.get_mut(&name)
}

/// Allocates storage of a texture, by its name.
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
    let store = state.texture(texture);
    *store = Store { memory, offset, shape: shape.into(), format, ..store.clone() };
}

/// Allocates storage of the texture bound to a target, which must be valid for the call.
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
