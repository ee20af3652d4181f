// What is asked of a row of numbers.

export function sum(row) {
  return row.reduce((total, value) => total + value, 0);
}

// Where the largest stands, the first of them.
export function argmax(row) {
  let best = 0;
  for (let x = 1; x < row.length; x += 1) if (row[x] > row[best]) best = x;
  return best;
}
