//! Objects dropped in any order, with work pending: nothing is freed too early, and nothing is left.

use std::sync::Arc;

use crate::common::{Context, buffer_desc, is_simulated, texture_desc, validation_messages};
use gpu_interop_test_support::in_own_process;
use gpu_interop_wgpu::{Reached, SharedBuffer, SharedTexture};

/// `true` where no other test runs at the same time in this process: these count what it has.
fn alone(test: &str) -> bool {
    is_simulated() || in_own_process(&format!("lifetimes::{test}"))
}

/// Resources of a test, each dropped when its turn comes.
struct Parts {
    buffer: Option<SharedBuffer>,
    texture: Option<SharedTexture>,
    wgpu_buffer: Option<wgpu::Buffer>,
    wgpu_texture: Option<wgpu::Texture>,
    context: Option<Context>,
    handles: Option<(wgpu::Device, wgpu::Queue)>,
}

impl Parts {
    /// Shared objects with work of both sides pending. `probe` lives as long as the wgpu device.
    fn with_pending_work(probe: &Arc<()>) -> Option<Self> {
        let context = Context::new()?;
        let kept = probe.clone();
        // wgpu keeps the function until the device is gone.
        context.device().set_device_lost_callback(move |_, _| {
            let _ = &kept;
        });
        let buffer = context.interop.create_buffer(&buffer_desc(65536, wgpu::BufferUsages::STORAGE)).expect("a buffer");
        let desc = texture_desc(wgpu::TextureFormat::Rgba8Uint, [64, 64], wgpu::TextureUsages::TEXTURE_BINDING);
        let texture = context.interop.create_texture(&desc).expect("a texture");
        let compute = context.interop.begin_compute(&context.stream, &[&buffer, &texture]).expect("handed over");
        context
            .stream
            .launch_host_function(|| std::thread::sleep(std::time::Duration::from_millis(3)))
            .expect("sleeps");
        context.stream.fill_u32(&buffer, 1).expect("filled");
        let back = compute.signal().expect("signalled");
        let readback = context.readback(65536);
        back.acquire_and_submit([context.encode(|encoder| {
            encoder.copy_buffer_to_buffer(buffer.wgpu(), 0, &readback, 0, 65536);
            encoder.clear_buffer(buffer.wgpu(), 0, None);
        })])
        .expect("handed back");
        drop(context.interop.create_timeline(0).expect("a timeline"));
        Some(Self {
            wgpu_buffer: Some(buffer.wgpu().clone()),
            wgpu_texture: Some(texture.wgpu().clone()),
            handles: Some((context.device().clone(), context.queue().clone())),
            buffer: Some(buffer),
            texture: Some(texture),
            context: Some(context),
        })
    }

    fn drop_one(&mut self, index: usize) {
        match index {
            0 => drop(self.buffer.take()),
            1 => drop(self.texture.take()),
            2 => drop(self.wgpu_buffer.take()),
            3 => drop(self.wgpu_texture.take()),
            4 => drop(self.context.take()),
            _ => drop(self.handles.take()),
        }
    }
}

/// Open descriptors of this process.
#[cfg(unix)]
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Open handles of this process. Wine does not count them: each possible number is tested.
#[cfg(windows)]
fn descriptors() -> usize {
    use gpu_interop_wgpu::gpu_interop::d3d::windows::Win32::Foundation::{GetHandleInformation, HANDLE};
    let is_open = |number: &usize| {
        let mut flags = 0;
        // SAFETY: the result is written to a live variable; any number is valid.
        unsafe { GetHandleInformation(HANDLE(std::ptr::without_provenance_mut(*number)), &raw mut flags) }.is_ok()
    };
    (4..65_536).step_by(4).filter(is_open).count()
}

/// Mappings of shared memory in this process: those of exported allocations.
fn shared_mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().filter(|line| line.contains("memfd") || line.contains("/dev/shm")).count()
}

/// The permutation of six things with this number.
fn order(mut number: usize) -> Vec<usize> {
    let mut left: Vec<_> = (0..6).collect();
    (1..=6)
        .rev()
        .map(|count| {
            let chosen = left.remove(number % count);
            number /= count;
            chosen
        })
        .collect()
}

#[test]
fn any_order_of_drops_leaves_nothing() {
    if !alone("any_order_of_drops_leaves_nothing") {
        return;
    }
    let probe = Arc::new(());
    // What drivers and runtimes load once.
    let Some(first) = Parts::with_pending_work(&probe) else { return };
    drop(first);
    let before = (descriptors(), shared_mappings());
    // Of 720 orders, some in which each part is first and last.
    for number in (0..720).step_by(17) {
        let Some(mut parts) = Parts::with_pending_work(&probe) else { return };
        for index in order(number) {
            parts.drop_one(index);
        }
        drop(parts);
        assert_eq!(Arc::strong_count(&probe), 1, "the wgpu device is left, order {:?}", order(number));
    }
    assert_eq!((descriptors(), shared_mappings()), before, "descriptors and mappings");
    // With the layer: objects that were left at the end of their device, or destroyed while in use.
    assert_eq!(validation_messages(), 0);
}

/// A waker is code of the executor: its destructor may drop other futures.
#[test]
fn a_replaced_waker_may_drop_futures() {
    struct Holds(std::sync::Mutex<Option<Reached>>);
    impl std::task::Wake for Holds {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().map(|mut held| held.take()));
        }
    }
    let Some(context) = Context::new() else { return };
    let timeline = context.interop.create_timeline(0).expect("a timeline");
    let (mut first, mut second) = (timeline.reached(1), timeline.reached(2));
    let (ended, has_ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut noop = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(std::pin::pin!(&mut second).poll(&mut noop).is_pending());
        let waker = std::task::Waker::from(Arc::new(Holds(std::sync::Mutex::new(Some(second)))));
        assert!(std::pin::pin!(&mut first).poll(&mut std::task::Context::from_waker(&waker)).is_pending());
        drop(waker);
        assert!(std::pin::pin!(&mut first).poll(&mut noop).is_pending());
        ended.send(()).expect("the test listens");
    });
    if has_ended.recv_timeout(std::time::Duration::from_secs(20)).is_err() {
        // The lock is held for ever.
        std::mem::forget((context, timeline));
        panic!("the second poll hangs");
    }
}

/// The thread of futures ends with its `Interop`.
#[test]
fn futures_leave_nothing() {
    if !alone("futures_leave_nothing") {
        return;
    }
    let probe = Arc::new(());
    let Some(mut parts) = Parts::with_pending_work(&probe) else { return };
    let context = parts.context.take().expect("a context");
    let timeline = context.interop.create_timeline(0).expect("a timeline");
    context.interop.submit_with(&[], [], &[(&timeline, 1)]).expect("submitted");
    let awaited = std::thread::spawn({
        let reached = timeline.reached(1);
        move || pollster::block_on(reached)
    });
    awaited.join().expect("no panic").expect("reached");
    // Polled once, and dropped before it is reached.
    let mut never = std::pin::pin!(timeline.reached(2));
    let mut noop = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(never.as_mut().poll(&mut noop).is_pending());
    never.set(timeline.reached(1));
    drop((context, timeline, parts));
    never.set(Context::new().expect("a context").interop.create_timeline(0).expect("a timeline").reached(0));
    // The thread ends by itself.
    let start = std::time::Instant::now();
    while Arc::strong_count(&probe) > 1 && start.elapsed() < std::time::Duration::from_secs(5) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(Arc::strong_count(&probe), 1, "the wgpu device is left");
    assert!(start.elapsed() < std::time::Duration::from_millis(900), "{:?}", start.elapsed());
    assert_eq!(validation_messages(), 0);
}

/// Objects that come and go while wgpu's device stays.
#[test]
fn a_thousand_objects_are_freed_while_the_device_lives() {
    if !alone("a_thousand_objects_are_freed_while_the_device_lives") {
        return;
    }
    let Some(context) = Context::new() else { return };
    let round = |count: usize| {
        for _ in 0..count {
            let buffer =
                context.interop.create_buffer(&buffer_desc(4096, wgpu::BufferUsages::STORAGE)).expect("a buffer");
            let desc = texture_desc(wgpu::TextureFormat::R32Uint, [16, 16], wgpu::TextureUsages::TEXTURE_BINDING);
            let texture = context.interop.create_texture(&desc).expect("a texture");
            let compute = context.interop.begin_compute(&context.stream, &[&buffer, &texture]).expect("handed over");
            context.stream.fill_u32(&buffer, 1).expect("filled");
            context.end(compute);
        }
        context.wait();
        context.stream.synchronize().expect("completes");
        context.interop.compute().collect();
        (descriptors(), shared_mappings())
    };
    let before = round(10);
    assert_eq!(round(500), before);
    assert_eq!(validation_messages(), 0);
}
