//! Faces of cubes, and which elements lie beside each other across their edges.

/// An element of a face. The coordinates may be outside the face.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Face {
    pub(crate) face: u8,
    pub(crate) x: i64,
    pub(crate) y: i64,
}

/// The direction of a point of a face whose coordinates are -1 to 1: the positive and the negative x, y and z.
fn direction(face: u8, x: f64, y: f64) -> [f64; 3] {
    match face {
        0 => [1.0, -y, -x],
        1 => [-1.0, -y, x],
        2 => [x, 1.0, y],
        3 => [x, -1.0, -y],
        4 => [x, -y, 1.0],
        _ => [-x, -y, -1.0],
    }
}

/// The face that a direction meets, the point there with the length of the direction, and the largest coordinate.
pub(crate) fn projected([x, y, z]: [f64; 3]) -> (u8, f64, f64, f64) {
    let [width, height, depth] = [x.abs(), y.abs(), z.abs()];
    if depth >= width && depth >= height {
        if z < 0.0 { (5, -x, -y, z) } else { (4, x, -y, z) }
    } else if height >= width {
        if y < 0.0 { (3, x, -z, y) } else { (2, x, z, y) }
    } else if x < 0.0 {
        (1, z, -y, x)
    } else {
        (0, -z, -y, x)
    }
}

/// The element at a place, which may be beyond one edge of the face: that of the neighbouring face.
pub(crate) fn neighbour(element: Face, size: i64) -> Face {
    let Face { face, x, y } = element;
    if (0..size).contains(&x) && (0..size).contains(&y) {
        return element;
    }
    let centre = |place: i64| (2 * place + 1) as f64 / size as f64 - 1.0;
    let (face, s, t, major) = projected(direction(face, centre(x), centre(y)));
    let place = |point: f64| (((point / major.abs() + 1.0) / 2.0 * size as f64).floor() as i64).clamp(0, size - 1);
    Face { face, x: place(s), y: place(t) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All elements beyond an edge are at the neighbouring face's edge, and lead back.
    #[test]
    fn neighbours_are_mutual() {
        for size in [1, 2, 3, 4, 7, 64] {
            for face in 0..6 {
                for along in 0..size {
                    for (x, y) in [(-1, along), (size, along), (along, -1), (along, size)] {
                        let there = neighbour(Face { face, x, y }, size);
                        assert_ne!(there.face / 2, face / 2);
                        let inside = Face { face, x: x.clamp(0, size - 1), y: y.clamp(0, size - 1) };
                        let Face { x, y, .. } = there;
                        let around = [(x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)];
                        let back = |(x, y)| neighbour(Face { face: there.face, x, y }, size) == inside;
                        assert!(around.into_iter().any(back), "{size} {face} {x} {y}");
                    }
                }
            }
        }
    }

    #[test]
    fn directions_meet_the_face_of_their_largest_coordinate() {
        for face in 0..6 {
            let [x, y, z] = direction(face, 0.25, -0.5).map(|part| part * 4.0);
            let major = [x, y, z][usize::from(face / 2)];
            assert_eq!(projected([x, y, z]), (face, 1.0, -2.0, major));
        }
        assert_eq!([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0], [-1.0, 0.5, 1.0]].map(|place| projected(place).0), [4, 2, 4]);
    }

    #[test]
    fn the_face_of_positive_x_touches_those_beside_it() {
        let at = |x, y| neighbour(Face { face: 0, x, y }, 4);
        assert_eq!(at(-1, 1), Face { face: 4, x: 3, y: 1 });
        assert_eq!(at(4, 1), Face { face: 5, x: 0, y: 1 });
        assert_eq!(at(1, -1), Face { face: 2, x: 3, y: 2 });
        assert_eq!(at(1, 4), Face { face: 3, x: 3, y: 1 });
        assert_eq!(at(2, 3), Face { face: 0, x: 2, y: 3 });
    }
}
