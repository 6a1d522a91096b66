/** Known before the charts are: their place is kept. */
export const chartHeight = 120
