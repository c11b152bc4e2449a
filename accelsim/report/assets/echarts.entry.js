// What echarts.min.js is built from: the parts of Apache ECharts 6.1.0 that the page draws with. To build it again:
//   npm install echarts@6.1.0 esbuild@0.28.2
//   npx esbuild echarts.entry.js --bundle --minify --format=iife --global-name=echarts --target=es2020 --outfile=echarts.min.js
import { init, use, version } from "echarts/core";
import { BarChart, CustomChart, LineChart, ScatterChart } from "echarts/charts";
import { AriaComponent, DataZoomComponent, GridComponent, LegendComponent, TooltipComponent } from "echarts/components";
import { LabelLayout } from "echarts/features";
import { CanvasRenderer } from "echarts/renderers";

use([BarChart, CustomChart, LineChart, ScatterChart]);
use([AriaComponent, DataZoomComponent, GridComponent, LegendComponent, TooltipComponent]);
use([LabelLayout, CanvasRenderer]);
export { init, version };
