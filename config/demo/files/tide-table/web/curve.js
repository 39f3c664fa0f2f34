// Draws the heights of a day, which sample.json has in metres, one for each ten minutes.

const canvas = document.querySelector("#curve");
const pen = canvas.getContext("2d");

function y(metres, highest) {
  return canvas.height - (metres / highest) * (canvas.height - 20);
}

function draw(heights) {
  const highest = Math.max(...heights);
  pen.clearRect(0, 0, canvas.width, canvas.height);
  pen.beginPath();
  heights.forEach((metres, index) => {
    const x = (index / (heights.length - 1)) * canvas.width;
    pen.lineTo(x, y(metres, highest));
  });
  pen.strokeStyle = getComputedStyle(canvas).color;
  pen.lineWidth = 2;
  pen.stroke();
}

const answer = await fetch("sample.json");
draw((await answer.json()).heights.slice(0, 144));
