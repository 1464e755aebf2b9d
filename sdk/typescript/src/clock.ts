/** Milliseconds of a clock that never turns back and is the same in all threads of the process. */
export const now = (): number => Number(process.hrtime.bigint()) / 1e6;
