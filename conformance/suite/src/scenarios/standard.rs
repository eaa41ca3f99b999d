//! The standard suite: every scenario, in the order in which they run, and the roles of their other processes.

#[cfg(target_os = "linux")]
use super::nvsci;
use super::{
    capture, environment, frame_ring, graph, graph_semaphores, heap, identity, image_copies, image_formats,
    image_kernels, image_lifetime, image_linear, image_misuse, image_shapes, import_request, leaks, lifetime, map,
    memory, process, property, reset, reverse, semaphore_misuse, semaphore_order, semaphore_process, size, stream,
    threads, timeline, two_devices, video,
};
#[cfg(windows)]
use super::{d3d, import_win32};
#[cfg(unix)]
use super::{gl, gl_order, import_fd, import_fd_stress, misbehaviour};
use crate::Scenario;
use crate::scenario::Role;

/// Every scenario of the standard suite, in the order in which they run.
pub(crate) fn standard() -> Vec<Scenario> {
    [
        identity::SCENARIOS,
        two_devices::SCENARIOS,
        environment::SCENARIOS,
        #[cfg(unix)]
        import_fd::SCENARIOS,
        #[cfg(unix)]
        import_fd_stress::SCENARIOS,
        #[cfg(windows)]
        &IMPORT_WIN32.concat(),
        import_request::SCENARIOS,
        map::SCENARIOS,
        memory::SCENARIOS,
        reverse::SCENARIOS,
        size::SCENARIOS,
        lifetime::SCENARIOS,
        reset::SCENARIOS,
        heap::SCENARIOS,
        leaks::SCENARIOS,
        threads::SCENARIOS,
        process::SCENARIOS,
        stream::SCENARIOS,
        semaphore_misuse::SCENARIOS,
        semaphore_order::SCENARIOS,
        semaphore_process::SCENARIOS,
        graph::SCENARIOS,
        capture::SCENARIOS,
        graph_semaphores::SCENARIOS,
        &TIMELINE.concat(),
        frame_ring::flow::SCENARIOS,
        frame_ring::endings::SCENARIOS,
        #[cfg(unix)]
        &MISBEHAVIOUR.concat(),
        #[cfg(target_os = "linux")]
        &NVSCI.concat(),
        #[cfg(windows)]
        &D3D.concat(),
        image_formats::SCENARIOS,
        image_shapes::SCENARIOS,
        image_copies::SCENARIOS,
        image_linear::SCENARIOS,
        image_kernels::SCENARIOS,
        image_lifetime::SCENARIOS,
        image_misuse::SCENARIOS,
        video::SCENARIOS,
        #[cfg(unix)]
        gl::SCENARIOS,
        #[cfg(unix)]
        gl_order::SCENARIOS,
        &PROPERTY.concat(),
    ]
    .concat()
}

#[cfg(windows)]
const IMPORT_WIN32: &[&[Scenario]] = &[
    import_win32::ownership::SCENARIOS,
    import_win32::other_objects::SCENARIOS,
    import_win32::sizes::SCENARIOS,
    import_win32::names::SCENARIOS,
    import_win32::stress::SCENARIOS,
];

const TIMELINE: &[&[Scenario]] = &[
    timeline::order::SCENARIOS,
    timeline::order::REACHED,
    timeline::stress::SCENARIOS,
    timeline::dropped::SCENARIOS,
    timeline::process::SCENARIOS,
    timeline::reset::SCENARIOS,
    timeline::abandoned::SCENARIOS,
    timeline::failure::SCENARIOS,
    timeline::misuse::SCENARIOS,
    timeline::misuse::WITHOUT_DEVICE,
    timeline::misuse::OTHERS,
];

#[cfg(unix)]
const MISBEHAVIOUR: &[&[Scenario]] = &[
    misbehaviour::descriptor::SCENARIOS,
    misbehaviour::import::SCENARIOS,
    misbehaviour::mapping::SCENARIOS,
    misbehaviour::native::SCENARIOS,
    misbehaviour::sort::SCENARIOS,
    misbehaviour::semaphore::SCENARIOS,
    misbehaviour::dma_buf::SCENARIOS,
];

#[cfg(target_os = "linux")]
const NVSCI: &[&[Scenario]] = &[
    nvsci::buffer::SCENARIOS,
    nvsci::image::SCENARIOS,
    nvsci::sync::SCENARIOS,
    nvsci::fence::SCENARIOS,
    nvsci::refusal::SCENARIOS,
    nvsci::leaks::SCENARIOS,
];

#[cfg(windows)]
const D3D: &[&[Scenario]] = &[
    d3d::memory12::SCENARIOS,
    d3d::texture12::SCENARIOS,
    d3d::video11::SCENARIOS,
    d3d::video12::SCENARIOS,
    d3d::fence::SCENARIOS,
    d3d::memory11::SCENARIOS,
    d3d::keyed_mutex::SCENARIOS,
    d3d::refusal::SCENARIOS,
    d3d::leaks::SCENARIOS,
];

const PROPERTY: &[&[Scenario]] = &[
    #[cfg(unix)]
    property::import::SCENARIOS,
    property::buffer::SCENARIOS,
    property::image::SCENARIOS,
    property::objects::SCENARIOS,
    property::semaphore::SCENARIOS,
];

/// The roles of the other processes of the standard suite.
pub(crate) fn roles() -> Vec<(&'static str, Role)> {
    [process::ROLES, semaphore_process::ROLES, timeline::process::ROLES, timeline::misuse::ROLES].concat()
}
