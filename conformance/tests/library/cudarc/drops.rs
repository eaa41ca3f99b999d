//! Objects dropped in every order, with work pending.

use std::any::Any;
use std::sync::Arc;

use gpu_interop::cudarc::cudarc::driver::result::DriverError;
use gpu_interop::cudarc::cudarc::driver::sys::CUresult;
use gpu_interop::cudarc::{SharedSlice, SharedStream, context_of, device};

use crate::machine::{Machine, SIZE, import};

/// All orders of the numbers below `count` (Heap's algorithm).
fn orders(count: usize) -> Vec<Vec<usize>> {
    fn permute(numbers: &mut Vec<usize>, count: usize, orders: &mut Vec<Vec<usize>>) {
        if count <= 1 {
            return orders.push(numbers.clone());
        }
        for place in 0..count {
            permute(numbers, count - 1, orders);
            numbers.swap(if count.is_multiple_of(2) { place } else { 0 }, count - 1);
        }
    }
    let mut orders = Vec::new();
    permute(&mut (0..count).collect(), count, &mut orders);
    orders
}

/// Six objects, 720 orders: both libraries' context, stream and memory. The kernel may run when they are dropped.
pub(crate) fn every_drop_order(machine: &Machine) {
    let orders = orders(6);
    assert_eq!(orders.len(), 720);
    for order in orders {
        let exported = machine.export();
        let opened = device(&machine.context).expect("a device");
        let context = context_of(&opened).expect("a context");
        let cudarc = context.new_stream().expect("a stream");
        // SAFETY: nothing is captured.
        let stream = unsafe { SharedStream::new(&opened, cudarc.clone()) }.expect("shared");
        let buffer = import(&opened, &exported);
        let mut words = SharedSlice::<u32>::mapped(&stream, buffer.clone(), ..).expect("a slice");
        stream.fill_u32(&*buffer, 41).expect("filled");
        machine.increment(&cudarc, &mut words);
        let objects: [Box<dyn Any>; 6] = [
            Box::new(opened),
            Box::new(context),
            Box::new(cudarc),
            Box::new(stream),
            Box::new(buffer),
            Box::new(words),
        ];
        let mut objects = objects.map(Some);
        for number in &order {
            objects[*number] = None;
        }
        // Closing the device waited for the work. Nothing tells Vulkan, so its words are all right or the test is
        // wrong.
        let seen = machine.words(&exported);
        assert_eq!(seen.iter().filter(|word| **word != 42).count(), 0, "order {order:?}");
    }
    machine.context.check_err().expect("no error of cudarc");
}

/// The slice's stream does nothing; another stream of cudarc does, and is dropped, too.
pub(crate) fn dropped_while_another_stream_of_cudarc_uses_it(machine: &Machine) {
    for stream in [machine.context.new_stream().expect("a stream"), machine.context.default_stream()] {
        let exported = machine.export();
        // SAFETY: nothing is captured.
        let stream = unsafe { SharedStream::new(&machine.device, stream) }.expect("shared");
        let buffer = import(&machine.device, &exported);
        let mut words = SharedSlice::<u32>::mapped(&stream, buffer, ..).expect("a slice");
        let other = machine.context.new_stream().expect("a stream");
        for _ in 0..1_000 {
            machine.increment(&other, &mut words);
        }
        drop((other, words));
        // The drop ordered the other stream's work in front of this.
        stream.synchronize().expect("done");
        assert_eq!(machine.words(&exported), vec![1_000; usize::try_from(SIZE / 4).expect("small")]);
    }
    machine.context.check_err().expect("no error of cudarc");
}

/// A slice never frees the mapping that it is of.
pub(crate) fn dropping_a_slice_frees_nothing(machine: &Machine) {
    let (stream, exported) = (machine.stream(), machine.export());
    let buffer = import(&machine.device, &exported);
    for value in 1..=100 {
        let mut words = SharedSlice::<u32>::mapped(&stream, buffer.clone(), ..).expect("a slice");
        machine.increment(stream.cudarc(), &mut words);
        drop(words);
        // The last slice is gone, the mapping is not.
        stream.fill_u32(buffer.slice(..4).expect("a word"), value).expect("filled");
    }
    stream.synchronize().expect("done");
    machine.context.check_err().expect("no error of cudarc");
    let buffer = Arc::into_inner(buffer).expect("no slice holds it");
    buffer.close().expect("unmapped once, here");
    let seen = machine.words(&exported);
    assert_eq!((seen[0], seen[1..].iter().filter(|word| **word != 100).count()), (100, 0));
}

/// cudarc returns an error of a drop from its next call. Dropping a slice neither loses nor trips over it.
pub(crate) fn an_earlier_error_of_cudarc_is_kept(machine: &Machine) {
    let (stream, exported) = (machine.stream(), machine.export());
    let mut words = SharedSlice::<u32>::mapped(&stream, import(&machine.device, &exported), ..).expect("a slice");
    let other = machine.context.new_stream().expect("a stream");
    for _ in 0..100 {
        machine.increment(&other, &mut words);
    }
    machine.context.record_err(Err::<(), _>(DriverError(CUresult::CUDA_ERROR_ALREADY_MAPPED)));
    drop(words);
    assert_eq!(machine.context.check_err(), Err(DriverError(CUresult::CUDA_ERROR_ALREADY_MAPPED)));
    stream.synchronize().expect("done");
    assert_eq!(machine.words(&exported), vec![100; usize::try_from(SIZE / 4).expect("small")]);
    let stream: Arc<_> = stream.cudarc().clone();
    stream.synchronize().expect("no error left");
}
