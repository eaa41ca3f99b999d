//! Resource states of Direct3D 12, and the memory of a resource in each of them.
//!
//! A shared texture without `ALLOW_SIMULTANEOUS_ACCESS` is in the shared memory only while its state is COMMON. In other
//! states the device has a copy, like a driver that compresses: without a transition to COMMON, other APIs find old
//! texels, and what they write is lost.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windows::Win32::Graphics::Direct3D12::*;
use windows::core::Result;

use crate::layout::Layout;
use crate::section::{Part, Section};

/// Changes of a resource's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rules {
    /// None: memory of the types UPLOAD and READBACK.
    Fixed,
    /// Each use, from COMMON to any state, until the end of `ExecuteCommandLists`: buffers, and textures with
    /// simultaneous access.
    Simultaneous,
    /// Barriers, and each use from COMMON to a state of copies and shaders. A state to read, reached by use, ends with
    /// `ExecuteCommandLists`.
    Exclusive,
}

/// States of textures that a use reaches from COMMON.
const PROMOTED: i32 =
    D3D12_RESOURCE_STATE_ALL_SHADER_RESOURCE.0 | D3D12_RESOURCE_STATE_COPY_SOURCE.0 | D3D12_RESOURCE_STATE_COPY_DEST.0;

#[derive(Debug, Clone, Copy)]
struct State {
    current: D3D12_RESOURCE_STATES,
    /// Reached by use.
    promoted: bool,
    /// Written since it left COMMON.
    written: bool,
}

/// The memory of a resource.
#[derive(Debug)]
pub(crate) struct Backing {
    pub(crate) part: Part,
    pub(crate) layout: Layout,
    rules: Rules,
    flags: D3D12_RESOURCE_FLAGS,
    /// The memory in other states than COMMON, if it is not `part`.
    copy: Option<Part>,
    /// By subresource.
    states: Mutex<Vec<State>>,
    /// Number of pending commands that use it.
    pending: AtomicUsize,
}

/// Resources used since the start of `ExecuteCommandLists`.
pub(crate) type Used = Vec<Arc<Backing>>;

/// Resources of pending commands.
pub(crate) struct InUse(Vec<Arc<Backing>>);

impl InUse {
    pub(crate) fn new(resources: Vec<Arc<Backing>>) -> Self {
        for backing in &resources {
            backing.pending.fetch_add(1, Ordering::SeqCst);
        }
        Self(resources)
    }
}

/// The commands have completed, or never will.
impl Drop for InUse {
    fn drop(&mut self) {
        for backing in &self.0 {
            backing.pending.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Backing {
    /// With `shared`, others access the memory.
    pub(crate) fn new(
        part: Part,
        layout: Layout,
        rules: Rules,
        flags: D3D12_RESOURCE_FLAGS,
        initial: D3D12_RESOURCE_STATES,
        shared: bool,
    ) -> Result<Arc<Self>> {
        let copy = if shared && rules == Rules::Exclusive {
            let section = Arc::new(Section::private(layout.size)?);
            Some(Part { section, offset: 0, size: layout.size })
        } else {
            None
        };
        let state = State { current: initial, promoted: false, written: false };
        let states = Mutex::new(vec![state; layout.subresources()]);
        Ok(Arc::new(Self { part, layout, rules, flags, copy, states, pending: AtomicUsize::new(0) }))
    }

    /// `true` while commands that use the resource are pending.
    pub(crate) fn is_in_use(&self) -> bool {
        self.pending.load(Ordering::SeqCst) > 0
    }

    fn states(&self) -> MutexGuard<'_, Vec<State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_promoted_to(&self, state: D3D12_RESOURCE_STATES) -> bool {
        match self.rules {
            Rules::Fixed => false,
            Rules::Simultaneous => true,
            Rules::Exclusive => PROMOTED & state.0 == state.0,
        }
    }

    /// The memory of a subresource for a command that needs `state`.
    ///
    /// # Panics
    /// If the subresource is in another state.
    pub(crate) fn used(self: &Arc<Self>, used: &mut Used, subresource: u32, state: D3D12_RESOURCE_STATES) -> &Part {
        let mut states = self.states();
        let own = states.get_mut(subresource as usize).expect("a subresource");
        if own.current == D3D12_RESOURCE_STATE_COMMON && self.is_promoted_to(state) {
            self.enter(own, subresource, state);
            own.promoted = true;
        }
        let fits = own.current.contains(state) && own.current != D3D12_RESOURCE_STATE_COMMON;
        assert!(fits, "a command that needs {state:?} uses subresource {subresource} in {:?}", own.current);
        own.written |= state == D3D12_RESOURCE_STATE_COPY_DEST;
        used.push(self.clone());
        self.copy.as_ref().unwrap_or(&self.part)
    }

    /// Executes a barrier.
    ///
    /// # Panics
    /// If a subresource is not in the state `before`, or the resource was not created for `after`.
    pub(crate) fn transition(
        self: &Arc<Self>,
        used: &mut Used,
        subresource: u32,
        before: D3D12_RESOURCE_STATES,
        after: D3D12_RESOURCE_STATES,
    ) {
        let lacks = |state, flag| after.contains(state) && !self.flags.contains(flag);
        let lacks = lacks(D3D12_RESOURCE_STATE_UNORDERED_ACCESS, D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS)
            || lacks(D3D12_RESOURCE_STATE_RENDER_TARGET, D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET);
        assert!(!lacks, "a transition to {after:?} of a resource with {:?}", self.flags);
        assert!(before != after, "a transition from {before:?} to itself");
        assert!(self.rules != Rules::Fixed, "a transition of a resource in upload or readback memory");
        let all = subresource == D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES;
        for (number, own) in (0..).zip(self.states().iter_mut()).filter(|(number, _)| all || *number == subresource) {
            let is_common = own.current == D3D12_RESOURCE_STATE_COMMON;
            let fits = own.current == before || is_common && self.is_promoted_to(before);
            assert!(
                fits,
                "a transition from {before:?} to {after:?} of subresource {number}, which is in {:?}",
                own.current
            );
            self.enter(own, number, after);
        }
        used.push(self.clone());
    }

    /// The end of an `ExecuteCommandLists` that used the resource.
    pub(crate) fn decay(&self) {
        for (number, own) in (0..).zip(self.states().iter_mut()) {
            let decays = match self.rules {
                Rules::Fixed => false,
                Rules::Simultaneous => true,
                Rules::Exclusive => own.promoted && !own.written,
            };
            if decays {
                self.enter(own, number, D3D12_RESOURCE_STATE_COMMON);
            }
        }
    }

    fn enter(&self, own: &mut State, subresource: u32, state: D3D12_RESOURCE_STATES) {
        let was_common = own.current == D3D12_RESOURCE_STATE_COMMON;
        let is_common = state == D3D12_RESOURCE_STATE_COMMON;
        if let Some(copy) = &self.copy {
            let rows = self.layout.subresource(subresource);
            if was_common && !is_common {
                rows.copy(&self.part, rows, copy);
            } else if is_common && own.written {
                rows.copy(copy, rows, &self.part);
            }
        }
        // Render targets and unordered access are for writing.
        let writes = D3D12_RESOURCE_STATE_RENDER_TARGET.0 | D3D12_RESOURCE_STATE_UNORDERED_ACCESS.0;
        let written = !is_common && (own.written || state.0 & writes != 0);
        *own = State { current: state, promoted: false, written };
    }
}
